package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// eventTypes returns an empty value of each type of the extension for events, with the JSON of a
// message that has it.
func eventTypes() map[string]codec {
	return map[string]codec{
		`{"name":"email.received","description":"d","delivery":["webhook","push","poll"],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"},"_meta":{"a":1},"x":2}`: &mcp.EventType{},
		`{"events":[{"name":"a","delivery":["poll"]}],"nextCursor":"n"}`:                                                                                                                                                            &mcp.ListEventsResult{},
		`{"eventId":"evt_1","name":"a","timestamp":"2026-02-19T15:30:00Z","data":{"b":1.0},"cursor":"c","_meta":{"a":1}}`:                                                                                                           &mcp.EventOccurrence{},
		`{"name":"a","arguments":{"b":1.0},"cursor":"c","maxAgeMs":300000,"maxEvents":50}`:                                                                                                                                          &mcp.EventParams{},
		`{"name":"a","delivery":{"mode":"webhook","url":"https://a.example","secret":"whsec_x"},"ttlMs":null}`:                                                                                                                      &mcp.EventParams{},
		`{"events":[],"cursor":null,"truncated":false,"hasMore":false,"nextPollMs":30000,"resultType":"complete"}`:                                                                                                                  &mcp.PollEventsResult{},
		`{"id":"sub_1","refreshBefore":null,"cursor":"c","truncated":true,"deliveryStatus":{"active":true,"lastDeliveryAt":"2026-02-19T16:28:00Z","lastError":null,"throttled":true,"retryAfterMs":60000},"resultType":"complete"}`: &mcp.SubscribeEventsResult{},
		`{"active":false,"lastError":"http_4xx","failedSince":"2026-02-19T15:50:00Z"}`:                                                                                                                                              &mcp.DeliveryStatus{},
		`{"cursor":"c","truncated":true,"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`:                                                                                                                                      &mcp.EventStatusParams{},
		`{"error":{"code":-32024,"message":"Forbidden","data":{"reason":"Access revoked"}},"_meta":{"a":"b"},"x":1}`:                                                                                                                &mcp.EventStatusParams{},
	}
}

func TestEventTypes(t *testing.T) {
	for text, value := range eventTypes() {
		if err := value.UnmarshalJSON([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		encoded, err := json.Marshal(value)
		if err != nil || !equalJSON(t, []byte(text), encoded) {
			t.Errorf("%s becomes %s, %v", text, encoded, err)
		}
		if err := value.UnmarshalJSON([]byte(`[]`)); err == nil {
			t.Errorf("%T accepts an array", value)
		}
	}
}

// An absent cursor is the same as null.
func TestAbsentCursor(t *testing.T) {
	for _, text := range []string{`{"events":[],"cursor":null}`, `{"events":[]}`} {
		var result mcp.PollEventsResult
		if err := result.UnmarshalJSON([]byte(text)); err != nil || result.Cursor != nil {
			t.Errorf("%s: %v, %v", text, result.Cursor, err)
		}
	}
}

// What is decoded can be encoded and decoded again.
func FuzzEventTypes(f *testing.F) {
	for text := range eventTypes() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, value := range eventTypes() {
			if value.UnmarshalJSON(text) != nil {
				continue
			}
			encoded, err := appendTo(nil, value)
			if err != nil {
				continue
			}
			if err := value.UnmarshalJSON(encoded); err != nil {
				t.Errorf("%T: %s becomes %s: %v", value, text, encoded, err)
			}
		}
	})
}

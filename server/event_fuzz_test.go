package server

import (
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Any text is a cursor or none. A cursor that is accepted is one that was made.
func FuzzEventCursor(f *testing.F) {
	s := New(mcp.Implementation{Name: "fuzz", Version: "1"}, nil)
	ring, err := s.dataKey.Ring(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	top := &topic{name: "e"}
	made := top.encodeCursor(s, ring, "alice", 7)
	f.Add(made, "alice")
	f.Add(made, "bob")
	f.Add("", "")
	f.Add(made[:20], "alice")
	f.Add(made+"\n", "alice")
	f.Fuzz(func(t *testing.T, cursor, principal string) {
		position, ok, err := top.decodeCursor(t.Context(), s, principal, cursor)
		if err != nil {
			t.Fatal(err)
		}
		if ok != (cursor == made && principal == "alice") || ok && position != 7 {
			t.Errorf("%q of %q is %v, %d", cursor, principal, ok, position)
		}
	})
}

// Any params are refused or within the limits.
func FuzzEventParams(f *testing.F) {
	f.Add([]byte(`{"name":"e","arguments":{"a":1},"cursor":null,"maxAgeMs":300000,"maxEvents":50}`))
	f.Add([]byte(`{"name":"e","delivery":{"mode":"webhook","url":"https://a.example","secret":"whsec_x"},"ttlMs":null}`))
	f.Add([]byte(`{"name":"e","ttlMs":1e400,"maxAgeMs":-1}`))
	f.Add([]byte(`{"name":"e","arguments":[],"cursor":7}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodEventsPoll, params)
		if err != nil {
			return
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		decoded, err := eventParams(&call)
		if err != nil {
			return
		}
		if decoded.Cursor != nil && len(*decoded.Cursor) > maxCursor || decoded.MaxEvents != nil && *decoded.MaxEvents < 1 || decoded.MaxAgeMs != nil && *decoded.MaxAgeMs < 0 {
			t.Errorf("%s is accepted", params)
		}
		if ttl, forever, err := webhookTTL(decoded.TTLMs); err == nil && (ttl < 0 || forever && ttl != 0) {
			t.Errorf("ttlMs %s is %v", decoded.TTLMs, ttl)
		}
		arguments, err := canonical(decoded.Arguments)
		if err != nil {
			return
		}
		if again, err := canonical(arguments); err != nil || string(again) != string(arguments) {
			t.Errorf("the canonical form of %s is %s, then %s, %v", decoded.Arguments, arguments, again, err)
		}
	})
}

// Any text is a stored position, or an error.
func FuzzWebhookPosition(f *testing.F) {
	f.Add(webhookPosition{Cursor: "c", Floor: 7, Reported: true}.encode())
	f.Add(`{"cursor":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		position, err := decodePosition(text)
		if err != nil {
			return
		}
		if again, err := decodePosition(position.encode()); err != nil || again != position {
			t.Errorf("%+v becomes %+v, %v", position, again, err)
		}
	})
}

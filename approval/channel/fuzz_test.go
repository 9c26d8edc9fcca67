package channel

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
)

// FuzzReply: whatever an approver sends, only a JSON true in an answer approves.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","result":true,"id":"1"}`, `{"jsonrpc":"2.0","result":false,"reason":"no","id":"1"}`,
		`{"jsonrpc":"2.0","error":{"code":1,"message":"x"},"id":"1"}`, `{"jsonrpc":"2.0","result":"true","id":"1"}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		r, err := readReply(frame)
		if err != nil || !r.approved {
			return
		}
		var message map[string]json.RawMessage
		if err := json.Unmarshal(frame, &message); err != nil || string(message["result"]) != "true" || message["error"] != nil || r.failed {
			t.Errorf("%q approves", frame)
		}
		again, err := readReply(answerFrame(message["id"], approval.Answer{Approved: true}))
		if err != nil || again.id != r.id || !again.approved {
			t.Errorf("%q becomes %+v, %v", frame, again, err)
		}
	})
}

// FuzzCall: whatever a server sends, a request that is read is what stands there.
func FuzzCall(f *testing.F) {
	frame, err := requestFrame(&approval.Request{ID: "1", Target: approval.Target{Server: "s", Tool: "t"}, Arguments: json.RawMessage(`{"a":1}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Add([]byte(`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{}},"id":7}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"withdrawn","params":{"id":"1"}}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		c, err := readCall(frame)
		if err != nil || c.request == nil {
			return
		}
		if c.request.ID == "" && string(c.id) != `""` {
			t.Errorf("%q: a request without an id", frame)
		}
		again, err := requestFrame(c.request)
		if err != nil {
			return // it has become too long
		}
		d, err := readCall(again)
		if err != nil || d.request.Digest() != c.request.Digest() {
			t.Errorf("%q becomes %q, %v", frame, again, err)
		}
	})
}

package jsonrpc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// array returns a batch of messages.
func array(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// The responses to a batch are sent in one array, in the order in which the calls end.
// JSON-RPC 2.0, section 6.
func TestConnBatch(t *testing.T) {
	noVersion := `jsonrpc must be "2.0", not missing`
	tests := map[string]struct {
		send string
		want string // "" if there is no reply
	}{
		"calls":              {array(call(1, "echo", `[1]`), call(2, "echo", `[2]`)), array(result(1, `[1]`), result(2, `[2]`))},
		"one call":           {array(call(1, "echo", `[1]`)), array(result(1, `[1]`))},
		"with notifications": {array(note("n", ""), call(1, "echo", `[1]`), note("n", "")), array(result(1, `[1]`))},
		"notifications only": {array(note("n", ""), note("n", "")), ""},
		"responses only":     {array(result(8, `{}`), failure(9, 1, "no")), ""},
		"calls and responses": {
			array(result(8, `{}`), call(1, "echo", `[1]`)),
			array(result(1, `[1]`)),
		},
		"refused ones first": {
			array(call(1, "echo", `[1]`), `{"id":2,"method":"echo"}`, `{"method":"echo"}`),
			array(failure(2, jsonrpc.InvalidRequest, noVersion), refusal(jsonrpc.InvalidRequest, noVersion), result(1, `[1]`)),
		},
		"refused only": {
			array(`1`),
			array(refusal(jsonrpc.InvalidRequest, "a message must be an object, not a number")),
		},
		"broken response":  {array(`{"id":2,"result":{}}`), ""},
		"error of a call":  {array(call(1, "fail", "")), array(failure(1, 4, "failed"))},
		"cancelled call":   {array(call(1, "cancelled", ""), call(2, "echo", `[2]`)), array(result(2, `[2]`))},
		"all cancelled":    {array(call(1, "cancelled", "")), ""},
		"same id twice":    {array(call(1, "echo", `[1]`), call(1, "echo", `[2]`)), array(result(1, `[1]`), result(1, `[2]`))},
		"longest":          {array(append(slices.Repeat([]string{note("n", "")}, 63), call(1, "echo", `[1]`))...), array(result(1, `[1]`))},
		"too long":         {array(slices.Repeat([]string{note("n", "")}, 65)...), refusal(jsonrpc.InvalidRequest, "a batch may hold at most 64 messages")},
		"empty":            {`[]`, refusal(jsonrpc.InvalidRequest, "a batch must not be empty")},
		"empty with space": {" [ ] ", refusal(jsonrpc.InvalidRequest, "a batch must not be empty")},
		"not accepted":     {array(call(1, "unwelcome", "")), refusal(3, "not in a batch")},
	}
	h := session{preempts: []string{"*"}, accept: func(batch []jsonrpc.Message) error { // calls run one after another
		for _, m := range batch {
			if req, ok := m.(*jsonrpc.Request); ok && req.Method == "unwelcome" {
				return &jsonrpc.Error{Code: 3, Message: "not in a batch"}
			}
		}
		return nil
	}}
	h.handle = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
		switch req.Method {
		case "fail":
			return &jsonrpc.Error{Code: 4, Message: "failed"}
		case "cancelled":
			from.Cancel(req.ID)
		}
		return echo(ctx, from, req, reply)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				r := newRig(t, h, nil)
				r.send(test.send)
				if test.want != "" {
					r.expect(test.want)
				}
				r.send(call(99, "echo", `{}`))
				r.expect(result(99, `{}`))
				r.finish()
			})
		})
	}
}

// The array of responses is sent after the slowest call. Other messages do not wait for it.
func TestConnBatchWaits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		h := session{}
		h.handle = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if req.Method == "slow" {
				<-release
			}
			return echo(ctx, from, req, reply)
		}
		r := newRig(t, h, nil)
		r.send(array(call(1, "slow", `[1]`), call(2, "echo", `[2]`)), call(3, "echo", `[3]`))
		r.expect(result(3, `[3]`))
		synctest.Wait()
		r.send(array(call(2, "echo", `[4]`))) // its first use has ended
		r.expect(array(result(2, `[4]`)))
		close(release)
		r.expect(array(result(2, `[2]`), result(1, `[1]`)))
		r.finish()
	})
}

// The error for a call of a batch that exceeds a limit is part of the array.
func TestConnBatchLimits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		h := session{}
		h.handle = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			<-release
			return echo(ctx, from, req, reply)
		}
		r := newRig(t, h, &jsonrpc.Options{MaxInFlight: 1})
		r.send(array(call(1, "slow", `[1]`), call(1, "slow", `[1]`), call(2, "slow", `[2]`)))
		synctest.Wait()
		close(release)
		r.expect(array(
			failure(1, jsonrpc.InvalidRequest, "id 1 is in use by a call that still runs"),
			failure(2, jsonrpc.Busy, "busy: at most 1 calls run at once"),
			result(1, `[1]`)))
		r.finish()
	})
}

// A batch may contain responses.
func TestConnBatchOfResponses(t *testing.T) {
	virtual(t, func(t *testing.T) {
		h := session{}
		r := newRig(t, h, nil)
		answered := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.conn.Call(t.Context(), "m", nil)
				answered <- err
			}()
		}
		synctest.Wait()
		r.send(array(result(2, `{}`), failure(1, 5, "no")))
		var refused *jsonrpc.Error
		if err := errors.Join(<-answered, <-answered); !errors.As(err, &refused) || refused.Code != 5 {
			t.Errorf("the errors are %v, want one with code 5", err)
		}
	})
}

// Without a SessionHandler that accepts it, a batch gets one error response.
func TestConnBatchRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var reports reports
		r := newRig(t, handler{handle: echo}, &jsonrpc.Options{Malformed: reports.add})
		r.send(array(call(1, "echo", `[1]`)))
		r.expect(refusal(jsonrpc.InvalidRequest, "batches are not supported here: send one message at a time"))
		r.send(`[1,`)
		if got, err := r.peer.Read(); err != nil || !strings.Contains(string(got), "-32700") {
			t.Errorf("a truncated batch got %s (%v), want a parse error", got, err)
		}
		r.finish()
		reports.want(t, "batches are not supported", "invalid JSON")
	})
	virtual(t, func(t *testing.T) {
		h := session{accept: func([]jsonrpc.Message) error { return errors.New("password=hunter2") }}
		r := newRig(t, h, nil)
		r.send(array(call(1, "echo", `[1]`)))
		r.expect(refusal(jsonrpc.InternalError, "internal error"))
		r.finish()
	})
}

func TestSplitBatchWithoutArray(t *testing.T) {
	for _, text := range []string{"{}", "", `"["`, " {", "x"} {
		if items, err := jsonrpc.SplitBatch([]byte(text)); items != nil || err != nil {
			t.Errorf("%q: %q, %v", text, items, err)
		}
	}
}

func TestSplitBatch(t *testing.T) {
	items, err := jsonrpc.SplitBatch([]byte(` [ {"a": 1} , 2,"x"
] `))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, string(item))
	}
	if diff := cmp.Diff([]string{`{"a": 1}`, `2`, `"x"`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSplitBatchRefuses(t *testing.T) {
	for _, test := range []struct {
		text string
		code jsonrpc.Code
		want string
	}{
		{`[]`, jsonrpc.InvalidRequest, "a batch must not be empty"},
		{"[0" + strings.Repeat(",1", 64) + "]", jsonrpc.InvalidRequest, "a batch may hold at most 64 messages"},
		{`[1,2`, jsonrpc.ParseError, "invalid JSON at byte 4: expected ',' or ']' after an element, found the end of the text"},
		{`[1,2,3,4,x]`, jsonrpc.ParseError, "invalid JSON at byte 9: expected a value, found 'x'"},
	} {
		_, err := jsonrpc.SplitBatch([]byte(test.text))
		var got *jsonrpc.DecodeError
		if !errors.As(err, &got) || got.Err.Code != test.code || got.Err.Message != test.want {
			t.Errorf("%s: %v, want %v: %s", test.text, err, test.code, test.want)
		}
	}
}

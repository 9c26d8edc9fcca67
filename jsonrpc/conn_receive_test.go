package jsonrpc_test

import (
	"bytes"
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Reply is called once for each call or batch, even if there is no response.
func TestReplies(t *testing.T) {
	h := session{preempts: []string{"*"}}
	h.handle = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
		if req.Method == "cancelled" {
			from.Cancel(req.ID)
		}
		return echo(ctx, from, req, reply)
	}
	for name, test := range map[string]struct {
		receive string
		skip    bool
		want    []string
	}{
		"call":                        {call(1, "echo", `[1]`), false, []string{result(1, `[1]`)}},
		"cancelled call":              {call(1, "cancelled", ""), false, []string{""}},
		"notification":                {note("n", ""), false, nil},
		"response":                    {result(8, `{}`), false, nil},
		"batch, all cancelled":        {array(call(1, "cancelled", ""), call(2, "cancelled", "")), false, []string{""}},
		"batch, one cancelled":        {array(call(1, "cancelled", ""), call(2, "echo", `[2]`)), false, []string{array(result(2, `[2]`))}},
		"batch of a broken response":  {array(`{"id":2,"result":{}}`), false, []string{""}},
		"batch of what is skipped":    {array(`1`, `{"id":2}`), true, []string{""}},
		"batch, skipped and answered": {array(`1`, call(1, "echo", `[1]`)), true, []string{array(result(1, `[1]`))}},
		"batch of notifications":      {array(note("n", ""), result(8, `{}`)), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConn(nil, h, &jsonrpc.Options{SkipMalformed: test.skip})
				defer c.Close()
				to := new(replier)
				c.Receive(t.Context(), c, to, []byte(test.receive))
				synctest.Wait()
				if diff := cmp.Diff(test.want, to.replies); diff != "" {
					t.Errorf("the replies differ:\n%s", diff)
				}
			})
		})
	}
}

// No call begins after Close.
func TestReceiveAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(nil, handler{handle: func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
			t.Error("a call was begun")
			return nil
		}}, nil)
		c.Close()
		to := new(replier)
		c.Receive(t.Context(), c, to, []byte(call(1, "echo", `[1]`)))
		synctest.Wait()
		if diff := cmp.Diff([]string{""}, to.replies); diff != "" {
			t.Errorf("the replies differ:\n%s", diff)
		}
	})
}

// Consecutive calls run on one goroutine, and Close ends that goroutine immediately when it is
// idle.
func TestCallsShareAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 3
		ran := make(chan string, calls)
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			name, _, _ := bytes.Cut(debug.Stack(), []byte(" [")) // "goroutine 7"
			ran <- string(name)
			return echo(ctx, from, req, reply)
		}}
		c := newConn(nil, h, nil)
		for id := range calls {
			c.Receive(t.Context(), c, new(replier), []byte(call(id, "echo", `[]`)))
			synctest.Wait()
		}
		first := <-ran
		for range calls - 1 {
			if next := <-ran; next != first {
				t.Errorf("a call was run by %s, the one before it by %s", next, first)
			}
		}
		c.Close()
	})
}

// Calls and notifications fail on a connection without a stream.
func TestConnWithoutStream(t *testing.T) {
	c := newConn(nil, handler{}, nil)
	defer c.Close()
	_, err := c.Call(t.Context(), "m", nil)
	wantFailure(t, err, jsonrpc.NotSent, nil)
	wantFailure(t, c.Notify(t.Context(), "m", nil), jsonrpc.NotSent, nil)
}

package jsonrpc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A tray is an outlet that keeps the answers; "" is that there is none.
type tray struct{ answers []string }

func (*tray) Write(context.Context, []byte) error { return nil }
func (y *tray) Answer(msg []byte)                 { y.answers = append(y.answers, string(msg)) }

// An outlet is told once how what was received by its route is answered, also that it
// is not: it may hold something open until then.
func TestRouteTellsOfNoAnswer(t *testing.T) {
	h := batcher{accept: func([]jsonrpc.Message) error { return nil }}
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
				d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return inOrder{h} }, &jsonrpc.Options{SkipMalformed: test.skip})
				defer d.Close()
				out := new(tray)
				d.Route(t.Context(), out).Receive([]byte(test.receive))
				synctest.Wait()
				if diff := cmp.Diff(test.want, out.answers); diff != "" {
					t.Errorf("the answers differ:\n%s", diff)
				}
			})
		})
	}
}

// Nothing begins after Close, which could not wait for it.
func TestDispatcherBeginsNothingAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler {
			return handler{handle: func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
				t.Error("a call was begun")
				return nil
			}}
		}, nil)
		d.Close()
		out := new(tray)
		d.Route(t.Context(), out).Receive([]byte(call(1, "echo", `[1]`)))
		synctest.Wait()
		if diff := cmp.Diff([]string{""}, out.answers); diff != "" {
			t.Errorf("the answers differ:\n%s", diff)
		}
	})
}

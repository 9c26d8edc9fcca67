package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// identified are parameters that contain the id of their own request.
type identified struct{ id jsonrpc.ID }

func (p *identified) Identify(id jsonrpc.ID) { p.id = id }

func (p *identified) AppendJSON(dst []byte) ([]byte, error) {
	return fmt.Appendf(dst, `{"token":%s}`, p.id), nil
}

// unencodable are parameters that cannot be written.
type unencodable struct{}

func (unencodable) AppendJSON(dst []byte) ([]byte, error) {
	return append(dst, `{"half":`...), errors.New("cannot be encoded")
}

// What goes out is numbered, framed, and answered by id in any order.
func TestConnCall(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r := newRig(t, handler{}, nil)
		ctx := t.Context()
		answers := make(chan string, 2)
		for i := range 2 {
			go func() {
				resp, err := r.conn.Call(ctx, "m", jsonrpc.Raw(fmt.Sprintf(`[%d]`, i)))
				if err != nil {
					t.Error(err)
				}
				answers <- string(resp.Result)
			}()
			synctest.Wait()
		}
		r.expect(call(1, "m", `[0]`), call(2, "m", `[1]`))
		r.send(result(2, `{"second":1.0}`), result(1, `{"first":9007199254740993}`))
		if a, b := <-answers, <-answers; a+b != `{"second":1.0}{"first":9007199254740993}` && b+a != `{"second":1.0}{"first":9007199254740993}` {
			t.Errorf("answered with %s and %s", a, b)
		}

		if err := r.conn.Notify(ctx, "n<>", nil); err != nil {
			t.Error(err)
		}
		r.expect(note("n<>", ""))
		go r.conn.Call(ctx, "m", &identified{})
		r.expect(call(3, "m", `{"token":3}`))
		r.finish()
	})
}

// How a call can fail, and how far it got then.
func TestConnCallFails(t *testing.T) {
	cause := errors.New("lost interest")
	tests := map[string]struct {
		opts     jsonrpc.Options
		ctx      func(ctx context.Context) (context.Context, context.CancelFunc)
		params   jsonrpc.Appender
		peer     func(r *rig) // runs once the call waits
		after    time.Duration
		delivery jsonrpc.Delivery
		err      error
	}{
		"context ended before": {
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				cancel(cause)
				return ctx, func() {}
			},
			delivery: jsonrpc.NotSent, err: cause,
		},
		"params":           {params: unencodable{}, delivery: jsonrpc.NotSent},
		"default deadline": {after: jsonrpc.DefaultCallTimeout, delivery: jsonrpc.MaybeExecuted, err: context.DeadlineExceeded},
		"own deadline": {
			opts:  jsonrpc.Options{CallTimeout: time.Hour},
			after: time.Hour, delivery: jsonrpc.MaybeExecuted, err: context.DeadlineExceeded,
		},
		"deadline of the context": {
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 2*time.Hour)
			},
			after: 2 * time.Hour, delivery: jsonrpc.MaybeExecuted, err: context.DeadlineExceeded,
		},
		"no deadline": {
			opts:  jsonrpc.Options{CallTimeout: -1},
			peer:  func(r *rig) { <-time.After(1000 * time.Hour); r.peer.Close() },
			after: 1000 * time.Hour, delivery: jsonrpc.MaybeExecuted, err: jsonrpc.ErrClosed,
		},
		"context ended": {
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(cause) })
				return ctx, func() {}
			},
			after: time.Second, delivery: jsonrpc.MaybeExecuted, err: cause,
		},
		"end of input": {peer: func(r *rig) { r.peer.Close() }, delivery: jsonrpc.MaybeExecuted, err: jsonrpc.ErrClosed},
		"closed":       {peer: func(r *rig) { r.conn.Close() }, delivery: jsonrpc.MaybeExecuted, err: jsonrpc.ErrClosed},
		"busy": {
			peer:     func(r *rig) { r.send(failure(1, jsonrpc.Busy, "busy")) },
			delivery: jsonrpc.Rejected,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				r := newRig(t, handler{}, &test.opts)
				ctx := t.Context()
				if test.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = test.ctx(ctx)
					defer cancel()
				}
				if test.peer != nil {
					go func() {
						synctest.Wait()
						test.peer(r)
					}()
				}
				start := time.Now()
				_, err := r.conn.Call(ctx, "m", test.params)
				wantFailure(t, err, test.delivery, test.err)
				if waited := time.Since(start); waited != test.after {
					t.Errorf("it took %v, want %v", waited, test.after)
				}
			})
		})
	}
}

// A call that the peer refuses is the peer's own error, not a failure of ours.
func TestConnCallRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r := newRig(t, handler{}, nil)
		go func() {
			r.peer.Read()
			r.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"big":9007199254740993}}}`)
		}()
		_, err := r.conn.Call(t.Context(), "m", nil)
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) || refused.Code != jsonrpc.InvalidParams || string(refused.Data) != `{"big":9007199254740993}` {
			t.Errorf("the error is %v, want the peer's", err)
		}
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
			t.Errorf("the error is a CallError: %v", failed)
		}
	})
}

// An answer that is none fails its call at once: nothing better will come.
func TestConnCallMalformedAnswer(t *testing.T) {
	for _, answer := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}`,
		`{"jsonrpc":"1.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":"no object"}`,
	} {
		virtual(t, func(t *testing.T) {
			r := newRig(t, handler{}, &jsonrpc.Options{SkipMalformed: true})
			go func() {
				r.expect(call(1, "m", ""))
				r.send(answer)
			}()
			start := time.Now()
			_, err := r.conn.Call(t.Context(), "m", nil)
			wantFailure(t, err, jsonrpc.MaybeExecuted, nil)
			if took := time.Since(start); took != 0 {
				t.Errorf("%s failed the call after %v, want at once", answer, took)
			}
			r.finish()
			if n := r.conn.Malformed(); n != 1 {
				t.Errorf("Malformed is %d, want 1", n)
			}
		})
	}
}

// When nobody waits any more, the handler is told once; the late answer is dropped
// and the next call gets its own.
func TestConnAbandon(t *testing.T) {
	virtual(t, func(t *testing.T) {
		type report struct {
			id    jsonrpc.ID
			cause error
		}
		reports := make(chan report, 1)
		h := abandoner{abandoned: func(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
			reports <- report{id, cause}
			if err := from.Notify(context.Background(), "cancelled", jsonrpc.Raw(id.String())); err != nil {
				t.Error(err)
			}
		}}
		r := newRig(t, h, nil)
		cause := errors.New("lost interest")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(cause)
		}()
		_, err := r.conn.Call(ctx, "m", nil)
		wantFailure(t, err, jsonrpc.MaybeExecuted, cause)
		if got := <-reports; got != (report{jsonrpc.IntID(1), cause}) {
			t.Errorf("told of %v", got)
		}
		r.expect(call(1, "m", ""), note("cancelled", "1"))

		go func() {
			r.expect(call(2, "m", ""))
			r.send(result(1, `"late"`), result(2, `"mine"`), result(2, `"twice"`))
		}()
		resp, err := r.conn.Call(t.Context(), "m", nil)
		if err != nil || string(resp.Result) != `"mine"` {
			t.Errorf("answered with %v (%v), want mine", resp, err)
		}
		r.finish()
		if n := r.conn.Malformed(); n != 2 {
			t.Errorf("Malformed is %d, want 2: the late and the second answer", n)
		}
	})
}

func TestConnMaxPending(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r := newRig(t, handler{}, &jsonrpc.Options{MaxPending: 2})
		answered := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.conn.Call(t.Context(), "m", nil)
				answered <- err
			}()
		}
		synctest.Wait()
		for range 3 {
			_, err := r.conn.Call(t.Context(), "m", nil)
			wantFailure(t, err, jsonrpc.NotSent, nil)
		}
		r.send(result(1, `{}`), result(2, `{}`))
		for range 2 {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		for range 3 { // these take no room
			_, err := r.conn.Call(t.Context(), "m", unencodable{})
			wantFailure(t, err, jsonrpc.NotSent, nil)
		}
		go func() {
			synctest.Wait()
			r.send(result(6, `{}`))
		}()
		if _, err := r.conn.Call(t.Context(), "m", nil); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

// Handlers call back, and are called back from there, without an end in deadlock.
func TestConnReentrant(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const depth = 20
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			var n int
			if _, err := fmt.Sscanf(string(req.Params), "[%d]", &n); err != nil {
				return err
			}
			if n == depth {
				return reply.Write(jsonrpc.Raw(`"bottom"`))
			}
			resp, err := from.Call(ctx, "deeper", jsonrpc.Raw(fmt.Sprintf("[%d]", n+1)))
			if err != nil {
				return err
			}
			return reply.Write(jsonrpc.Raw(resp.Result))
		}}
		client, server := connect(t, h, h)
		for _, from := range []*jsonrpc.Conn{client, server} {
			resp, err := from.Call(t.Context(), "deeper", jsonrpc.Raw("[0]"))
			if err != nil || string(resp.Result) != `"bottom"` {
				t.Errorf("answered with %v (%v)", resp, err)
			}
		}
	})
}

// A notification handler may start work that calls back.
func TestConnCallFromNotification(t *testing.T) {
	virtual(t, func(t *testing.T) {
		answered := make(chan string)
		h := handler{notified: func(from jsonrpc.Peer, n *jsonrpc.Request) {
			from.(*jsonrpc.Conn).Go(func(ctx context.Context) {
				resp, err := from.Call(ctx, "echo", jsonrpc.Raw(n.Params))
				if err != nil {
					t.Error(err)
				}
				answered <- string(resp.Result)
			})
		}}
		client, _ := connect(t, handler{handle: echo}, h)
		if err := client.Notify(t.Context(), "n", jsonrpc.Raw(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		if got := <-answered; got != `{"a":1}` {
			t.Errorf("answered with %s", got)
		}
	})
}

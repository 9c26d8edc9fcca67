package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// identified are parameters that contain the id of their request.
type identified struct{ id jsonrpc.ID }

func (p *identified) ReceiveID(id jsonrpc.ID) { p.id = id }

func (p *identified) AppendJSON(dst []byte) ([]byte, error) {
	return fmt.Appendf(dst, `{"token":%s}`, p.id), nil
}

// Calls have ascending ids, and their responses may come in any order.
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

// A failed call reports its delivery and cause.
func TestConnCallFails(t *testing.T) {
	cause := errors.New("no longer needed")
	tests := map[string]struct {
		opts     jsonrpc.Options
		ctx      func(ctx context.Context) (context.Context, context.CancelFunc)
		params   jsonrpc.Appender
		peer     func(r *rig) // runs when the call waits
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
		"params":           {params: refusing{errors.New("cannot be encoded")}, delivery: jsonrpc.NotSent},
		"default deadline": {after: time.Minute, delivery: jsonrpc.MaybeExecuted, err: context.DeadlineExceeded},
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
					t.Errorf("the call took %v, want %v", waited, test.after)
				}
			})
		})
	}
}

// The error of a refused call is the *Error of the peer, not a *CallError.
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

// A malformed response fails its call immediately.
func TestConnCallMalformedResponse(t *testing.T) {
	for _, answer := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}`,
		`{"jsonrpc":"1.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":["no object"]}`,
		`{"jsonrpc":"2.0","result":{"text":"` + "\x01" + `"},"id": 1.0 }`,
		`{"jsonrpc":"2.0","result":{"text":"\x"},"id":"1"}`,
		`{"jsonrpc":"2.0","error":{"code":1,"message":"` + "\n" + `"},"id":1}`,
		`{"jsonrpc":"2.0","id":1,"result":{"text":"cut`,
		`{"jsonrpc":"2.0","result":{"a":[1,2,}, "id":1}`,
	} {
		virtual(t, func(t *testing.T) {
			var reports reports
			r := newRig(t, handler{}, &jsonrpc.Options{SkipMalformed: true, Malformed: reports.add})
			go func() {
				r.expect(call(1, "m", ""))
				r.send(answer)
			}()
			start := time.Now()
			_, err := r.conn.Call(t.Context(), "m", nil)
			wantFailure(t, err, jsonrpc.MaybeExecuted, nil)
			if bad, ok := errors.AsType[*jsonrpc.DecodeError](err); !ok || !bad.Response {
				t.Errorf("%s: the error is %v, want the DecodeError of the answer", answer, err)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("%s failed the call after %v, want immediately", answer, took)
			}
			r.finish()
			reports.want(t, "malformed answer")
		})
	}
}

// A response that no call waits for by the text of its id belongs to the call that has its value.
func TestConnCallMatchesIDByValue(t *testing.T) {
	for _, id := range []string{`"1"`, `1.0`, `1e0`, `"\u0031"`} {
		virtual(t, func(t *testing.T) {
			r := newRig(t, handler{}, nil)
			go func() {
				r.expect(call(1, "m", ""))
				r.send(result(id, `"mine"`))
			}()
			resp, err := r.conn.Call(t.Context(), "m", nil)
			if err != nil || string(resp.Result) != `"mine"` {
				t.Errorf("%s: answered with %v (%v), want mine", id, resp, err)
			}
			r.finish()
		})
	}
}

// When a call is abandoned, NotifyCancelled is called once. A late response is dropped and does not become the response
// to the next call.
func TestConnAbandon(t *testing.T) {
	virtual(t, func(t *testing.T) {
		type cancellation struct {
			id    jsonrpc.ID
			cause error
		}
		cancellations := make(chan cancellation, 1)
		h := notifier{cancelled: func(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
			cancellations <- cancellation{id, cause}
			if err := from.Notify(context.Background(), "cancelled", jsonrpc.Raw(id.String())); err != nil {
				t.Error(err)
			}
		}}
		var responses reports // those without a pending call
		r := newRig(t, h, &jsonrpc.Options{Malformed: responses.add})
		cause := errors.New("no longer needed")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(cause)
		}()
		_, err := r.conn.Call(ctx, "m", nil)
		wantFailure(t, err, jsonrpc.MaybeExecuted, cause)
		if got := <-cancellations; got != (cancellation{jsonrpc.IntID(1), cause}) {
			t.Errorf("NotifyCancelled got %v", got)
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
		responses.want(t, "with the id 1: the call has been answered, cancelled or has timed out", "with the id 2: the call has been answered")
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
			_, err := r.conn.Call(t.Context(), "m", refusing{errors.New("cannot be encoded")})
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

// Handlers of both peers may call each other recursively without a deadlock.
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

// A goroutine that a notification handler starts may call the peer.
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

// A failing stream fails every write. It ends when it is closed.
type failing struct {
	write  func() error
	close  sync.Once
	closed chan struct{}
}

func newFailing(write func(closed <-chan struct{}) error) *failing {
	f := &failing{closed: make(chan struct{})}
	f.write = func() error { return write(f.closed) }
	return f
}

func (f *failing) Read() ([]byte, error) {
	<-f.closed
	return nil, io.EOF
}

func (f *failing) Write(context.Context, []byte) error { return f.write() }

func (f *failing) Close() error {
	f.close.Do(func() { close(f.closed) })
	return nil
}

// A failed write has the delivery of the stream's *CallError, and NotSent with other errors.
func TestWriteFails(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		err      error
		delivery jsonrpc.Delivery
	}{
		"an error":       {broken, jsonrpc.NotSent},
		"not sent":       {&jsonrpc.CallError{Method: "other", Delivery: jsonrpc.NotSent, Err: broken}, jsonrpc.NotSent},
		"maybe executed": {&jsonrpc.CallError{Method: "other", Delivery: jsonrpc.MaybeExecuted, Err: broken}, jsonrpc.MaybeExecuted},
		"rejected":       {&jsonrpc.CallError{Delivery: jsonrpc.Rejected, Err: broken}, jsonrpc.Rejected},
	} {
		virtual(t, func(t *testing.T) {
			stream := newFailing(func(<-chan struct{}) error { return test.err })
			h := notifier{cancelled: func(jsonrpc.Peer, jsonrpc.ID, error) { t.Errorf("%s: the peer is notified of a cancelled call", name) }}
			conn := newConn(stream, h, &jsonrpc.Options{MaxPending: 1})
			go conn.Run(context.Background())
			defer conn.Close()
			for way, peer := range map[string]jsonrpc.Peer{"stream": conn, "other way": conn.PeerVia(stream.Write)} {
				for range 3 { // a failed call is not pending
					_, err := peer.Call(t.Context(), "m", nil)
					notifyErr := peer.Notify(t.Context(), "m", nil)
					for _, err := range []error{err, notifyErr} {
						failed, ok := err.(*jsonrpc.CallError)
						if !ok || failed.Method != "m" || failed.Delivery != test.delivery || failed.Err != broken {
							t.Errorf("%s, %s: got %v", name, way, err)
						}
					}
				}
			}
		})
	}
}

// A call whose params cannot be encoded was not sent, even if the error is a *CallError with
// another delivery.
func TestEncodingFails(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r := newRig(t, handler{}, nil)
		other := &jsonrpc.CallError{Method: "other", Delivery: jsonrpc.MaybeExecuted, Err: io.EOF}
		_, err := r.conn.Call(t.Context(), "m", refusing{other})
		wantFailure(t, err, jsonrpc.NotSent, other)
		wantFailure(t, r.conn.Notify(t.Context(), "m", refusing{other}), jsonrpc.NotSent, other)
		r.finish()
	})
}

// refusing are parameters that cannot be encoded.
type refusing struct{ err error }

func (p refusing) AppendJSON(dst []byte) ([]byte, error) { return append(dst, `{"half":`...), p.err }

// A write during which the connection is closed fails with ErrClosed, unless the stream
// returns a *CallError.
func TestWriteFailsWhenClosed(t *testing.T) {
	cut := errors.New("cut")
	for name, test := range map[string]struct {
		err      error
		delivery jsonrpc.Delivery
		want     error
	}{
		"an error":       {cut, jsonrpc.NotSent, jsonrpc.ErrClosed},
		"maybe executed": {&jsonrpc.CallError{Delivery: jsonrpc.MaybeExecuted, Err: cut}, jsonrpc.MaybeExecuted, cut},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				writing := make(chan struct{}, 2)
				stream := newFailing(func(closed <-chan struct{}) error {
					writing <- struct{}{}
					<-closed
					return test.err
				})
				conn := newConn(stream, handler{}, nil)
				go conn.Run(context.Background())
				failures := make(chan error, 2)
				go func() {
					_, err := conn.Call(t.Context(), "m", nil)
					failures <- err
				}()
				go func() { failures <- conn.Notify(t.Context(), "m", nil) }()
				<-writing
				<-writing
				conn.Close()
				for range 2 {
					wantFailure(t, <-failures, test.delivery, test.want)
				}
			})
		})
	}
}

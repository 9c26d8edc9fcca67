package jsonrpc_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A failing stream, and outlet, fails every write. It ends when it is closed.
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

func (f *failing) Answer([]byte) {}

func (f *failing) Close() error {
	f.close.Do(func() { close(f.closed) })
	return nil
}

// How far a message got that could not be written is known to who could not write it.
// Whoever says nothing of it has not sent it.
func TestWriteFails(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		err      error
		delivery jsonrpc.Delivery
	}{
		"an error":       {broken, jsonrpc.NotSent},
		"not sent":       {&jsonrpc.CallError{Method: "theirs", Delivery: jsonrpc.NotSent, Err: broken}, jsonrpc.NotSent},
		"maybe executed": {&jsonrpc.CallError{Method: "theirs", Delivery: jsonrpc.MaybeExecuted, Err: broken}, jsonrpc.MaybeExecuted},
		"rejected":       {&jsonrpc.CallError{Delivery: jsonrpc.Rejected, Err: broken}, jsonrpc.Rejected},
	} {
		virtual(t, func(t *testing.T) {
			stream := newFailing(func(<-chan struct{}) error { return test.err })
			abandoned := abandoner{abandoned: func(jsonrpc.Peer, jsonrpc.ID, error) { t.Errorf("%s: it was told of an abandoned call", name) }}
			opts := &jsonrpc.Options{MaxPending: 1}
			d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return abandoned }, opts)
			defer d.Close()
			conn := jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return abandoned }, opts)
			go conn.Run(context.Background())
			defer conn.Close()
			for way, peer := range map[string]jsonrpc.Peer{"conn": conn, "route": d.Route(t.Context(), stream)} {
				for range 3 { // no place is lost
					_, err := peer.Call(t.Context(), "ours", nil)
					told := peer.Notify(t.Context(), "ours", nil)
					for _, err := range []error{err, told} {
						failed, ok := err.(*jsonrpc.CallError)
						if !ok || failed.Method != "ours" || failed.Delivery != test.delivery || failed.Err != broken {
							t.Errorf("%s, %s: got %v", name, way, err)
						}
					}
				}
			}
		})
	}
}

// What could not be encoded was not sent, whatever its error says of something else.
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

func (p refusing) AppendJSON(dst []byte) ([]byte, error) { return dst, p.err }

// When the connection is closed in the middle of a write, that is why it fails, unless
// the stream knows better.
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
				conn := jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return handler{} }, nil)
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

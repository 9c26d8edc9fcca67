package jsonrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// feed is a stream whose input is fixed and whose output is kept.
type feed struct {
	mu     sync.Mutex
	in     []string
	then   error // what Read returns after that
	out    []string
	closed bool
}

func (f *feed) Read() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.in) == 0 {
		return nil, f.then
	}
	frame := f.in[0]
	f.in = f.in[1:]
	return []byte(frame), nil
}

func (f *feed) Write(_ context.Context, msg []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return jsonrpc.ErrClosed
	}
	f.out = append(f.out, string(msg))
	return nil
}

func (f *feed) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func conn(stream jsonrpc.Stream, h jsonrpc.Handler, opts *jsonrpc.Options) *jsonrpc.Conn {
	return jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return h }, opts)
}

// slow handles "slow" calls in a minute, virtual of course.
func slow(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == "slow" {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return echo(ctx, from, req, reply)
}

// At the end of input everything that was read is answered, within the bound.
func TestConnDrain(t *testing.T) {
	tests := map[string]struct {
		drain    time.Duration
		took     time.Duration
		answered bool
	}{
		"long enough": {2 * time.Minute, time.Minute, true},
		"too short":   {time.Second, time.Second, false},
		"not at all":  {-1, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				stream := &feed{in: []string{call(1, "slow", `[]`), call(2, "slow", `[]`), call(3, "slow", `[]`)}, then: io.EOF}
				start := time.Now()
				if err := conn(stream, handler{handle: slow}, &jsonrpc.Options{Drain: test.drain}).Run(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
				want := 0
				if test.answered {
					want = 3
				}
				if len(stream.out) != want || !stream.closed {
					t.Errorf("sent %q, closed %t; want %d answers and true", stream.out, stream.closed, want)
				}
			})
		})
	}
}

// Close during a drain leaves handlers their grace period and no more.
func TestConnCloseEndsDrain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		deaf := func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
			<-time.After(time.Minute)
			return nil
		}
		stream := &feed{in: []string{call(1, "deaf", "")}, then: io.EOF}
		c := conn(stream, handler{handle: deaf}, &jsonrpc.Options{Drain: time.Hour, Grace: time.Second})
		ran := make(chan error)
		go func() { ran <- c.Run(t.Context()) }()
		synctest.Wait()
		start := time.Now()
		c.Close()
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v, want 1s", took)
		}
		if err := <-ran; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
		<-time.After(time.Minute) // for the handler to end
	})
}

// A handler that calls back cannot be answered after the end of input, and must
// not wait for it.
func TestConnDrainFailsCallbacks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			_, err := from.Call(ctx, "back", nil)
			if !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("the error is %v, want ErrClosed", err)
			}
			return reply.Write(jsonrpc.Raw(`"done"`))
		}}
		stream := &feed{in: []string{call(1, "m", "")}, then: io.EOF}
		start := time.Now()
		if err := conn(stream, h, nil).Run(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(stream.out, "\n"); !strings.HasSuffix(got, result(1, `"done"`)) || time.Since(start) != 0 {
			t.Errorf("sent\n%s\nafter %v", got, time.Since(start))
		}
	})
}

func TestConnRunReturns(t *testing.T) {
	broken := errors.New("broken")
	virtual(t, func(t *testing.T) {
		if err := conn(&feed{then: io.EOF}, handler{}, nil).Run(t.Context()); err != nil {
			t.Errorf("at the end of input: %v", err)
		}
		if err := conn(&feed{then: broken}, handler{}, nil).Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("when reading fails: %v", err)
		}
		stream, _ := transport.Streams()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(broken) })
		if err := conn(stream, handler{}, nil).Run(ctx); !errors.Is(err, broken) {
			t.Errorf("when ctx ends: %v", err)
		}
		c := conn(&feed{then: io.EOF}, handler{}, nil)
		if err := c.Close(); err != nil {
			t.Errorf("closing before running: %v", err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Errorf("running after closing: %v", err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("running twice succeeded")
		}
		<-c.Done()
	})
}

// Close cancels what runs, fails what waits, and may be called by anybody at any
// time.
func TestConnClose(t *testing.T) {
	virtual(t, func(t *testing.T) {
		causes := make(chan error, 1)
		h := handler{handle: func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil
		}}
		r := newRig(t, h, nil)
		r.send(call(1, "wait", ""))
		waiting := make(chan error, 10)
		for range cap(waiting) {
			go func() {
				_, err := r.conn.Call(t.Context(), "m", nil)
				waiting <- err
			}()
		}
		synctest.Wait()
		var closers sync.WaitGroup
		for range 10 {
			closers.Go(func() {
				if err := r.conn.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closers.Wait()
		<-r.conn.Done()
		if err := <-causes; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the handler's cause is %v, want ErrClosed", err)
		}
		for range cap(waiting) {
			wantFailure(t, <-waiting, jsonrpc.MaybeExecuted, jsonrpc.ErrClosed)
		}
		_, err := r.conn.Call(t.Context(), "m", nil)
		wantFailure(t, err, jsonrpc.NotSent, net.ErrClosed)
		wantFailure(t, r.conn.Notify(t.Context(), "n", nil), jsonrpc.NotSent, net.ErrClosed)
		r.conn.Cancel(jsonrpc.IntID(1)) // of nothing
		if err := <-r.ran; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
}

// What waited in the stream when the connection was closed is not started any more.
func TestConnCloseStartsNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var seen []string
		h := handler{notified: func(from jsonrpc.Peer, n *jsonrpc.Request) {
			seen = append(seen, n.Method)
			go from.(*jsonrpc.Conn).Close()
			synctest.Wait()
		}}
		stream := &feed{in: []string{note("first", ""), note("second", ""), call(1, "third", "")}, then: io.EOF}
		if err := conn(stream, h, nil).Run(t.Context()); err != nil {
			t.Error(err)
		}
		if len(seen) != 1 || len(stream.out) != 0 {
			t.Errorf("handled %q and sent %q, want the first only and nothing", seen, stream.out)
		}
	})
}

// A handler that does not look at its context cannot hold up Close for longer
// than the grace period.
func TestConnGrace(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler{handle: func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
			<-release
			return nil
		}}
		r := newRig(t, h, &jsonrpc.Options{Grace: 3 * time.Second})
		r.send(call(1, "deaf", ""))
		synctest.Wait()
		start := time.Now()
		r.conn.Close()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Close took %v, want 3s", took)
		}
		close(release)
	})
}

// Run waits for what Go started, and its context ends with the connection.
func TestConnGo(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r := newRig(t, handler{}, nil)
		var ended error
		r.conn.Go(func(ctx context.Context) {
			<-ctx.Done()
			<-time.After(time.Second)
			ended = context.Cause(ctx)
		})
		synctest.Wait()
		r.conn.Close()
		if !errors.Is(ended, jsonrpc.ErrClosed) {
			t.Errorf("the cause is %v, want ErrClosed", ended)
		}
	})
}

// Calls, closing and the end of input at once: every call has one outcome.
func TestConnCloseRaces(t *testing.T) {
	for range 200 {
		a, b := transport.Streams()
		server := conn(b, handler{handle: echo}, nil)
		client := conn(a, handler{}, &jsonrpc.Options{Drain: -1})
		var all sync.WaitGroup
		for _, c := range []*jsonrpc.Conn{server, client} {
			all.Go(func() { c.Run(context.Background()) })
		}
		for range 4 {
			all.Go(func() {
				for {
					_, err := client.Call(context.Background(), "echo", jsonrpc.Raw(`{}`))
					if err == nil {
						continue
					}
					if !errors.Is(err, jsonrpc.ErrClosed) {
						t.Errorf("the error is %v, want ErrClosed", err)
					}
					return
				}
			})
		}
		all.Go(func() { client.Close() })
		all.Go(func() { server.Close() })
		all.Wait()
	}
}

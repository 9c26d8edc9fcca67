package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A feed is a stream with fixed input that records its output.
type feed struct {
	mu     sync.Mutex
	in     []string
	then   error // the error of Read after the input
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

// slow handles "slow" calls in a minute of virtual time.
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

// At the end of the input, calls that were read get replies within the drain limit.
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
				if err := newConn(stream, handler{handle: slow}, &jsonrpc.Options{Drain: test.drain}).Run(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("Run took %v, want %v", took, test.took)
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

// A lossy stream loses the messages that contain lost.
type lossy struct {
	jsonrpc.Stream
	lost string
}

func (l lossy) Read() ([]byte, error) {
	for {
		frame, err := l.Stream.Read()
		if err != nil || !strings.Contains(string(frame), l.lost) {
			return frame, err
		}
	}
}

func (l lossy) Write(ctx context.Context, msg []byte) error {
	if strings.Contains(string(msg), l.lost) {
		return nil
	}
	return l.Stream.Write(ctx, msg)
}

// A connection reads from, writes to and closes the stream that Wrap returns. Wrap is not called
// without a stream.
func TestConnWrap(t *testing.T) {
	var all []string
	for _, lost := range []string{"first", "result", "nothing"} {
		stream := &feed{in: []string{call(1, "first", `[]`), call(2, "second", `[]`)}, then: io.EOF}
		wrap := func(s jsonrpc.Stream) jsonrpc.Stream { return lossy{s, lost} }
		if err := newConn(stream, handler{handle: echo}, &jsonrpc.Options{Wrap: wrap}).Run(t.Context()); err != nil {
			t.Error(err)
		}
		all = append(all, fmt.Sprint(lost, len(stream.out), stream.closed))
	}
	if want := []string{"first1 true", "result0 true", "nothing2 true"}; !slices.Equal(all, want) {
		t.Errorf("sent %q, want %q", all, want)
	}
	newConn(nil, handler{handle: echo}, &jsonrpc.Options{Wrap: func(jsonrpc.Stream) jsonrpc.Stream { panic("there is no stream") }}).Close()
}

// Close during a drain waits for handlers for the grace period only.
func TestConnCloseEndsDrain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		deaf := func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
			<-time.After(time.Minute)
			return nil
		}
		stream := &feed{in: []string{call(1, "deaf", "")}, then: io.EOF}
		c := newConn(stream, handler{handle: deaf}, &jsonrpc.Options{Drain: time.Hour, Grace: time.Second})
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

// A handler's call to the peer fails after the end of the input.
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
		if err := newConn(stream, h, nil).Run(t.Context()); err != nil {
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
		if err := newConn(&feed{then: io.EOF}, handler{}, nil).Run(t.Context()); err != nil {
			t.Errorf("at the end of input: %v", err)
		}
		if err := newConn(&feed{then: broken}, handler{}, nil).Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("when reading fails: %v", err)
		}
		stream, _ := transport.NewPipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(broken) })
		if err := newConn(stream, handler{}, nil).Run(ctx); !errors.Is(err, broken) {
			t.Errorf("when ctx ends: %v", err)
		}
		c := newConn(&feed{then: io.EOF}, handler{}, nil)
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

// Close cancels running handlers and fails pending calls. It may be called at any time, by
// handlers too.
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
		r.conn.Cancel(jsonrpc.IntID(1)) // without effect
		if err := <-r.ran; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
}

// Messages that the stream still holds when the connection is closed are not handled.
func TestConnCloseStartsNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var seen []string
		h := handler{notified: func(from jsonrpc.Peer, n *jsonrpc.Request) {
			seen = append(seen, n.Method)
			go from.(*jsonrpc.Conn).Close()
			synctest.Wait()
		}}
		stream := &feed{in: []string{note("first", ""), note("second", ""), call(1, "third", "")}, then: io.EOF}
		if err := newConn(stream, h, nil).Run(t.Context()); err != nil {
			t.Error(err)
		}
		if len(seen) != 1 || len(stream.out) != 0 {
			t.Errorf("handled %q and sent %q, want the first message only, and no output", seen, stream.out)
		}
	})
}

// A handler that ignores its context delays Close for at most the grace period.
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

// Run waits for functions of Go. Their context ends with the connection.
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

// Every call has one outcome if calls, Close and the end of the input happen at the same time.
func TestConnCloseRaces(t *testing.T) {
	for range 200 {
		a, b := transport.NewPipe()
		server := newConn(b, handler{handle: echo}, nil)
		client := newConn(a, handler{}, &jsonrpc.Options{Drain: -1})
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

func TestHandleCloseIsCalledOnce(t *testing.T) {
	for name, end := range map[string]func(h session){
		"closed twice": func(h session) {
			c := newConn(nil, h, nil)
			c.Close()
			c.Close()
		},
		"the end of input": func(h session) {
			c := newConn(&feed{then: io.EOF}, h, nil)
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
			c.Close()
		},
		"closed before there is a handler": func(h session) {
			var closing sync.WaitGroup
			jsonrpc.NewConn(nil, func(c *jsonrpc.Conn) jsonrpc.Handler {
				closing.Go(func() { c.Close() })
				return h
			}, nil)
			closing.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var closed atomic.Int32
			end(session{closed: &closed})
			if n := closed.Load(); n != 1 {
				t.Errorf("HandleClose is called %d times", n)
			}
		})
	}
}

// A panic in a callback of the options ends the connection, not the program.
func TestConnEndsWhenACallbackPanics(t *testing.T) {
	virtual(t, func(t *testing.T) {
		stream := &feed{in: []string{"not JSON"}, then: io.EOF}
		c := newConn(stream, handler{}, &jsonrpc.Options{Malformed: func(error) { panic("a bug") }})
		if err := c.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "jsonrpc: reading: panic: a bug\n") {
			t.Errorf("Run returns %v", err)
		}
		c.Close()
	})
}

package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestPipe(t *testing.T) {
	transporttest.Run(t, func(_ *testing.T, server transport.Binder) transport.Dialer { return transport.Pipe(server) })
}

// A handler is a function that is a jsonrpc.Handler.
type handler func(ctx context.Context, req *jsonrpc.Request, reply *jsonrpc.Reply) error

func (h handler) Handle(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return h(ctx, req, reply)
}

func (handler) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func echo(_ context.Context, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return reply.Write(jsonrpc.Raw(req.Params))
}

// A binder is a function that is a transport.Binder.
type binder func(link transport.Link) jsonrpc.Handler

func (b binder) Bind(link transport.Link) jsonrpc.Handler { return b(link) }

// Close ends the functions of the server, and waits for them.
func TestPipeCloseEndsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled, worked error
		server := binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(ctx context.Context) {
				<-ctx.Done()
				<-time.After(time.Second)
				worked = context.Cause(ctx)
			})
			return handler(func(ctx context.Context, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
				<-ctx.Done()
				handled = context.Cause(ctx)
				return handled
			})
		})
		conn, err := transport.Pipe(server).Dial(t.Context(), handler(echo))
		if err != nil {
			t.Fatal(err)
		}
		go conn.Call(t.Context(), "wait", nil)
		synctest.Wait()
		start := time.Now()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if !errors.Is(handled, jsonrpc.ErrClosed) || !errors.Is(worked, jsonrpc.ErrClosed) {
			t.Errorf("the causes are %v and %v, want ErrClosed", handled, worked)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v, want the 1 s of the server", took)
		}
	})
}

// Close immediately after Dial ends the connection too.
func TestPipeCloseImmediately(t *testing.T) {
	for range 100 {
		conn, err := transport.Pipe(transporttest.Server()).Dial(t.Context(), handler(echo))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-conn.Done():
		default:
			t.Fatal("Done is open after Close")
		}
	}
}

func TestNewPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.NewPipe()
		message := []byte(`{"a":1}`)
		if err := a.Write(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		message[0] = 'x' // the stream has its own copy
		if got, err := b.Read(); err != nil || string(got) != `{"a":1}` {
			t.Errorf("read %s (%v)", got, err)
		}

		full := func() (n int) {
			for {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errFull)
				err := b.Write(ctx, fmt.Append(nil, n))
				cancel()
				if errors.Is(err, errFull) {
					return n
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		if n := full(); n != 64 {
			t.Errorf("%d messages may wait, want 64", n)
		}
		waiting := make(chan error)
		go func() { waiting <- b.Write(t.Context(), []byte("64")) }()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
		if err := <-waiting; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the blocked Write returned %v, want ErrClosed", err)
		}
		for i := range 64 {
			if got, err := a.Read(); err != nil || string(got) != fmt.Sprint(i) {
				t.Fatalf("read %s (%v), want %d", got, err, i)
			}
		}
		for _, end := range []jsonrpc.Stream{a, b} {
			if _, err := end.Read(); err != io.EOF {
				t.Errorf("reading after the end: %v, want EOF", err)
			}
			if err := end.Write(t.Context(), nil); !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("writing after the end: %v, want ErrClosed", err)
			}
		}
	})
}

var errFull = errors.New("full")

// A server and a client in one process.
func ExamplePipe() {
	server := binder(func(transport.Link) jsonrpc.Handler { return handler(echo) })
	ctx := context.Background()
	conn, err := transport.Pipe(server).Dial(ctx, handler(echo))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, "echo", jsonrpc.Raw(`{"hello":"world"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output: {"hello":"world"}
}

// A message that is written to one end is read from the other.
func ExampleNewPipe() {
	a, b := transport.NewPipe()
	if err := a.Write(context.Background(), []byte(`{"jsonrpc":"2.0","method":"hello"}`)); err != nil {
		fmt.Println(err)
	}
	message, err := b.Read()
	fmt.Println(string(message), err)
	// Output: {"jsonrpc":"2.0","method":"hello"} <nil>
}

func TestPipePrincipal(t *testing.T) {
	var link transport.Link
	dialer := transport.Pipe(binder(func(l transport.Link) jsonrpc.Handler { link = l; return handler(echo) }))
	conn, err := dialer.Dial(transport.WithPrincipal(t.Context(), "ann"), handler(echo))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if link.Principal != "ann" {
		t.Errorf("the principal is %q", link.Principal)
	}
}

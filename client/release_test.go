package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A lender is a transport that makes something else of a response once it is released.
type lender struct {
	transport.Dialer
	released atomic.Int32
}

func (l *lender) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := l.Dialer.Dial(ctx, handler)
	return lenderConn{conn, l}, err
}

type lenderConn struct {
	transport.Conn
	lender *lender
}

func (c lenderConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	if err == nil {
		result := resp.Result
		resp.Lend(func() {
			clear(result)
			c.lender.released.Add(1)
		})
	}
	return resp, err
}

// Every answer is released, and nothing of it is used afterwards.
func TestAnswersAreReleased(t *testing.T) {
	for _, test := range []struct {
		name, ttl string
		answers   [4]string
		released  int32
	}{
		{"answers that do not hold", "0", [4]string{"v0", "v1", "v2", "v3"}, 4},
		{"answers of which copies are kept", "60000", [4]string{"v0", "v0", "v1", "v1"}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dialer := &lender{Dialer: script((&library{ttl: test.ttl}).script)}
			session := connect(t, dialer, client.Options{})
			before := dialer.released.Load()
			expect(t, test.answers[0], list(t, session))
			expect(t, test.answers[1], list(t, session))
			expect(t, test.answers[2], read(t, session, "a:1"))
			expect(t, test.answers[3], read(t, session, "a:1"))
			if got := dialer.released.Load() - before; got != test.released {
				t.Errorf("%d answers were released, want %d", got, test.released)
			}
		})
	}
}

// TestArgumentsOutliveAPanic: when a callback panics, the call still runs, and may be sent
// again. Its arguments are its own all the same.
func TestArgumentsOutliveAPanic(t *testing.T) {
	type in struct{ Who string }
	type answer struct{ OK bool }
	asked, gate := make(chan string, 2), make(chan struct{})
	s := server.New(mcp.Implementation{Name: "s"}, nil)
	server.AddTool(s, server.Tool{Name: "asks"}, func(ctx context.Context, r *server.Request, i in) (string, error) {
		asked <- i.Who
		if err := r.Progress(ctx, 1, 2, ""); err != nil {
			return "", err
		}
		<-gate
		_, err := server.Elicit[answer](r, "key", "sure?")
		return "", err
	})
	server.AddTool(s, server.Tool{Name: "other"}, func(context.Context, *server.Request, in) (string, error) { return "", nil })
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{
		Era: client.Modern,
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: []byte(`{"OK":true}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	func() {
		defer func() { recover() }()
		opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) { panic("a fault of the callback") }}
		_, err := session.CallTool(t.Context(), "asks", in{strings.Repeat("one ", 50)}, opts)
		t.Errorf("the callback has not panicked: %v", err)
	}()
	for range 3 {
		if _, err := session.CallTool(t.Context(), "other", in{strings.Repeat("two ", 50)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	for range 2 {
		select {
		case who := <-asked:
			if !strings.HasPrefix(who, "one ") {
				t.Errorf("the call got the arguments of another: %q", who)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the call was not made again as it was")
		}
	}
}

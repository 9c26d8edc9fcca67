package client_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
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

// What is not kept is released, and nothing of it is used afterwards.
func TestAnswersAreReleased(t *testing.T) {
	for _, test := range []struct {
		name, ttl string
		answers   [4]string
		released  int32
	}{
		{"answers that do not hold", "0", [4]string{"v0", "v1", "v2", "v3"}, 4},
		{"answers that are kept", "60000", [4]string{"v0", "v0", "v1", "v1"}, 0},
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

package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// The two ends of a session carry whatever the kit sends.
func TestDialKit(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		r := serve(t, opening{server}, nil)
		return openingDialer{streamable.Dial(r.http.URL, nil)}
	})
}

// opening is a server that takes the handshake beside what it does.
type opening struct{ server transport.Binder }

func (o opening) Bind(link transport.Link) jsonrpc.Handler {
	return openingHandler{o.server.Bind(link)}
}

type openingHandler struct{ jsonrpc.Handler }

func (h openingHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == "initialize" {
		return reply.Write(jsonrpc.Raw(`{"protocolVersion":"2025-11-25"}`))
	}
	return h.Handler.Handle(ctx, from, req, reply)
}

// openingDialer opens a session on each connection.
type openingDialer struct{ transport.Dialer }

func (d openingDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := d.Dialer.Dial(ctx, handler)
	if err != nil {
		return nil, err
	}
	if _, err = conn.Call(ctx, "initialize", nil); err == nil {
		err = conn.Notify(ctx, "notifications/initialized", nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// A swap is an HTTP server whose handler can be replaced, as that of a server that is
// restarted.
type swap struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
}

func newSwap(t *testing.T) *swap {
	s := new(swap)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	return s
}

func (s *swap) to(handler http.Handler) { s.handler.Store(&handler) }

// A client outlives its server, whichever version they speak: the next call is
// answered by the new one.
func TestDialServerRestarts(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			web := newSwap(t)
			start := func() *streamable.Endpoint {
				endpoint := streamable.Handler(newServer(), nil)
				web.to(endpoint)
				return endpoint
			}
			endpoint := start()
			session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				result, err := session.CallTool(t.Context(), "sum", sumIn{A: 1, B: 2}, nil)
				if err != nil || result.IsError {
					t.Errorf("got %+v, %v", result, err)
				}
				endpoint.Close()
				endpoint = start()
			}
			session.Close()
			endpoint.Close()
		})
	}
}

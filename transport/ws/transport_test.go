package ws_test

import (
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/transporttest"
	"github.com/dovetail-go/dovetail/transport/ws"
)

func TestTransport(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		return ws.Dial(serve(t, server, nil), nil)
	})
}

func TestTransportEncrypted(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		endpoint := ws.Handler(server, nil)
		srv := httptest.NewTLSServer(endpoint)
		t.Cleanup(func() {
			endpoint.Close()
			srv.Close()
		})
		return ws.Dial(srv.URL, &ws.DialOptions{HTTPClient: srv.Client()})
	})
}

// An HTTP client that speaks HTTP/2 with the same server will do: a WebSocket is
// opened over HTTP/1.1.
func TestDialBesideHTTP2(t *testing.T) {
	endpoint := ws.Handler(binder(echoing), nil)
	defer endpoint.Close()
	srv := httptest.NewUnstartedServer(endpoint)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	resp, err := client.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Errorf("the server speaks %s", resp.Proto)
	}
	conn, err := ws.Dial(srv.URL, &ws.DialOptions{HTTPClient: client}).Dial(t.Context(), handler(refuse))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

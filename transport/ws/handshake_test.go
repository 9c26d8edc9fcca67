package ws_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A TLS handshake that fails is the error of Dial, which says why.
func TestDialHandshakesThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		server, client func(*tls.Config)
		is             any
		says           string
	}{
		"unknown authority":   {nil, func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }, new(*tls.CertificateVerificationError), "certificate"},
		"roots of the system": {nil, func(c *tls.Config) { c.RootCAs = nil }, new(*tls.CertificateVerificationError), "certificate"},
		"another name":        {nil, func(c *tls.Config) { c.ServerName = "mcp.test" }, new(x509.HostnameError), "mcp.test"},
		"TLS 1.1":             {func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, nil, nil, "version"},
		"client certificate":  {func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }, nil, nil, ""},
	} {
		endpoint := ws.Handler(binder(echoing), nil)
		srv := httptest.NewUnstartedServer(endpoint)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{}
		if test.server != nil {
			test.server(srv.TLS)
		}
		srv.StartTLS()
		config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		if test.client != nil {
			test.client(config)
		}
		conn, err := ws.Dial(srv.URL, &ws.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}}).Dial(t.Context(), handler(refuse))
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, transport.ErrNotReached) || !strings.Contains(err.Error(), test.says) || test.is != nil && !errors.As(err, test.is) {
			t.Errorf("%s: got %v", name, err)
		}
		endpoint.Close()
		srv.Close()
	}
}

// Both ends can do without the subprotocol.
func TestNoSubprotocol(t *testing.T) {
	call := func(t *testing.T, url string, opts *ws.DialOptions) (*jsonrpc.Response, error) {
		t.Helper()
		conn, err := ws.Dial(url, opts).Dial(t.Context(), handler(refuse))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		return conn.Call(t.Context(), "echo", jsonrpc.Raw(`[1]`))
	}
	for _, server := range []*ws.Options{nil, {NoSubprotocol: true}} {
		for _, client := range []*ws.DialOptions{nil, {NoSubprotocol: true}} {
			_, err := call(t, serve(t, binder(echoing), server), client)
			if refused := server == nil && client != nil; (err != nil) != refused {
				t.Errorf("server %v, client %v: %v", server, client, err)
			}
		}
	}
	// A server that selects no subprotocol must begin with a message.
	for first, says := range map[string]string{`{"jsonrpc":"2.0","id":1,"result":{}}`: "", `welcome`: "no subprotocol", `{"type":"hello"}`: "no subprotocol"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, _, err := conn.ReadMessage(); err != nil {
				t.Error(err)
			}
			_ = conn.WriteMessage(websocket.TextMessage, []byte(first))
			_, _, _ = conn.ReadMessage() // the close frame
		}))
		_, err := call(t, web.URL, nil)
		if (err != nil) != (says != "") || err != nil && (!strings.Contains(err.Error(), says) || !errors.Is(err, jsonrpc.ErrClosed)) {
			t.Errorf("%s: %v, want %q", first, err, says)
		}
		web.Close()
	}
}

// The error of Dial contains no credentials, even if the response repeats them.
func TestDialRefusalThatRepeatsCredentials(t *testing.T) {
	const token = "token-0123456789-abcdefghijklmnopqrstuvwxyz"
	for _, status := range []int{200, 302, 401, 403, 500} {
		for _, before := range []int{0, 1000} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "https://evil.example/"+r.Header.Get("Authorization"))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, strings.Repeat(" ", before)+r.Header.Get("Authorization"))
			}))
			_, err := ws.Dial(srv.URL, &ws.DialOptions{Header: func(_ context.Context, header http.Header) error {
				header.Set("Authorization", "Bearer "+token)
				return nil
			}}).Dial(t.Context(), handler(refuse))
			if refused, ok := errors.AsType[*ws.HandshakeError](err); !ok || refused.Status != status || strings.Contains(err.Error(), token[:8]) {
				t.Errorf("%d: got %v", status, err)
			}
			srv.Close()
		}
	}
}

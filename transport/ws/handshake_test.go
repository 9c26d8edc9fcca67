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

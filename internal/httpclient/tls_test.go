package httpclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// encrypted starts a server with TLS that counts its requests. It returns a transport as clients have, which trusts the
// server.
func encrypted(t *testing.T, h2 bool, change func(*tls.Config)) (server *httptest.Server, network *http.Transport, served *atomic.Int32) {
	t.Helper()
	served = new(atomic.Int32)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Proto)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = h2
	server.TLS = &tls.Config{}
	if change != nil {
		change(server.TLS)
	}
	server.StartTLS()
	network = httptransport.NewClient(nil).Transport.(*http.Transport)
	network.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	t.Cleanup(func() {
		network.CloseIdleConnections()
		server.Close()
	})
	return server, network, served
}

// A request whose TLS handshake fails has not been executed, and the error says why.
func TestHandshakesThatFail(t *testing.T) {
	serverOf := func(change func(*tls.Config)) func(*tls.Config) { return change }
	certificate := serverCertificate(t)
	for name, test := range map[string]struct {
		server   func(*tls.Config)
		client   func(*tls.Config)
		host     string
		delivery jsonrpc.Delivery
		is       any    // the type of an error in the chain
		says     string // a part of the error
	}{
		"good":                {nil, nil, "", jsonrpc.MaybeExecuted, nil, ""},
		"unknown authority":   {nil, func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }, "", jsonrpc.NotSent, new(*tls.CertificateVerificationError), "certificate"},
		"roots of the system": {nil, func(c *tls.Config) { c.RootCAs = nil }, "", jsonrpc.NotSent, new(*tls.CertificateVerificationError), "certificate"},
		"another name":        {nil, nil, "localhost", jsonrpc.NotSent, new(x509.HostnameError), "localhost"},
		"expired":             {nil, func(c *tls.Config) { c.Time = func() time.Time { return time.Now().AddDate(200, 0, 0) } }, "", jsonrpc.NotSent, new(x509.CertificateInvalidError), "expired"},
		"TLS 1.1":             {serverOf(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), nil, "", jsonrpc.NotSent, nil, "version"},
		"no common protocol":  {serverOf(func(c *tls.Config) { c.NextProtos = []string{"x"} }), nil, "", jsonrpc.NotSent, nil, "protocol"},
		"client certificate, TLS 1.3": {
			serverOf(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), nil, "", jsonrpc.Rejected, nil, "certificate required",
		},
		"client certificate, TLS 1.2": {
			serverOf(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 }), nil, "", jsonrpc.NotSent, nil, "handshake",
		},
		"client certificate of an unknown authority, TLS 1.3": {
			serverOf(func(c *tls.Config) { c.ClientAuth = tls.RequireAndVerifyClientCert }),
			func(c *tls.Config) { c.Certificates = []tls.Certificate{certificate} }, "", jsonrpc.Rejected, nil, "certificate",
		},
		"a client certificate that is accepted": {
			serverOf(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }),
			func(c *tls.Config) { c.Certificates = []tls.Certificate{certificate} }, "", jsonrpc.MaybeExecuted, nil, "",
		},
	} {
		for _, h2 := range []bool{false, true} {
			server, network, served := encrypted(t, h2, test.server)
			if test.client != nil {
				test.client(network.TLSClientConfig)
			}
			at := server.URL
			if test.host != "" {
				at = strings.Replace(at, "127.0.0.1", test.host, 1)
			}
			for range 3 {
				before := served.Load()
				_, delivery, err := post(t, httpclient.New(at, &http.Client{Transport: network}, nil, nil), at+"?key=secret", "{}")
				if test.says == "" {
					if err != nil || served.Load() == before {
						t.Errorf("%s, %t: %v", name, h2, err)
					}
					continue
				}
				if err == nil || !isNotReached(err) || served.Load() != before || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s, %t: got %v, and %d requests were served", name, h2, err, served.Load()-before)
					continue
				}
				if test.delivery == jsonrpc.Rejected && delivery == jsonrpc.MaybeExecuted && !strings.Contains(err.Error(), "tls:") {
					continue // writing failed before the alert was read
				}
				if delivery != test.delivery || !strings.Contains(err.Error(), test.says) || test.is != nil && !errors.As(err, test.is) {
					t.Errorf("%s, %t: got %T: %v (%v), want %v", name, h2, err, err, delivery, test.delivery)
				}
			}
		}
	}
}

// serverCertificate returns a certificate with its key, which a client may present.
func serverCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return server.TLS.Certificates[0]
}

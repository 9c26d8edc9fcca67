package httpclient_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// where is the URL of every test server.
const where = "http://script.test/mcp?key=secret"

// script starts a server with the handler of a test.
func script(t testing.TB, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(serve)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// toward returns a transport that reaches the server under every name.
func toward(t testing.TB, server *httptest.Server) *http.Transport {
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// roundTripper is a RoundTripper of another package than net/http.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newClient returns a client for [where] without an authorizer.
func newClient(given *http.Client, header httpclient.Header) *httpclient.Client {
	return httpclient.New(where, given, header, nil)
}

// paths returns a client for each path of a request: with an http.Client and without.
func paths(t testing.TB, server *httptest.Server) map[string]*http.Client {
	tr := toward(t, server)
	return map[string]*http.Client{"direct": {Transport: tr}, "client": {Transport: roundTripper(tr.RoundTrip)}}
}

// post posts a text and drops the response.
func post(t testing.TB, c *httpclient.Client, to, text string) (status int, delivery jsonrpc.Delivery, err error) {
	t.Helper()
	var progress httpclient.Progress
	res, err := c.Post(t.Context(), parsed(t, to), http.Header{"Content-Type": {"application/json"}}, []byte(text), &progress)
	if err != nil {
		return 0, progress.Delivery(), err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, progress.Delivery(), nil
}

func parsed(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func isNotReached(err error) bool { return errors.Is(err, transport.ErrNotReached) }

func TestMain(m *testing.M) { leaktest.Main(m) }

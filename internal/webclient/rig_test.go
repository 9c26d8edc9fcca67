package webclient_test

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

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// where is the URL of every script.
const where = "http://script.test/mcp?key=secret"

// script starts a server that does what the test says.
func script(t testing.TB, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(serve)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// toward is a Transport that finds a server under every name.
func toward(t testing.TB, server *httptest.Server) *http.Transport {
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// roundTripper is one that is not net/http's.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ways are the two that requests can take: with an http.Client and without.
func ways(t testing.TB, server *httptest.Server) map[string]*http.Client {
	tr := toward(t, server)
	return map[string]*http.Client{"direct": {Transport: tr}, "client": {Transport: roundTripper(tr.RoundTrip)}}
}

// post posts a text and drops the answer.
func post(t testing.TB, c *webclient.Client, to, text string) (status int, delivery jsonrpc.Delivery, err error) {
	t.Helper()
	var progress webclient.Progress
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

package httpguard_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// locals are the local addresses that a connection may have.
var locals = map[string]net.Addr{
	"loopback":    &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80},
	"loopback v6": &net.TCPAddr{IP: net.IPv6loopback, Port: 80},
	"mapped":      &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.9"), Port: 80},
	"public":      &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 80},
	"public v6":   &net.TCPAddr{IP: net.ParseIP("2001:db8::2"), Port: 80},
	"unix":        &net.UnixAddr{Name: "/run/x", Net: "unix"},
	"pipe":        pipeAddr{},
	"without IP":  &net.TCPAddr{},
	"unknown":     nil,
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// strict lists the local addresses where only loopback names are allowed.
var strict = map[string]bool{"loopback": true, "loopback v6": true, "mapped": true, "pipe": true, "without IP": true, "unknown": true}

// request makes a request as it comes in on a connection.
func request(method, host string, local net.Addr) *http.Request {
	r := httptest.NewRequest(method, "/mcp", nil)
	r.Host = host
	if local != nil {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	}
	return r
}

func guard(t testing.TB, hosts, origins []string) *httpguard.Guard {
	t.Helper()
	g, err := httpguard.NewGuard(hosts, origins)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// checkRefusal checks that a refusal is a JSON-RPC error without an id.
func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	var body struct {
		JSONRPC string
		ID      json.RawMessage
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Errorf("body %q: %v", w.Body, err)
	}
	if body.JSONRPC != "2.0" || body.ID != nil || body.Error.Code != -32600 || body.Error.Message == "" {
		t.Errorf("body %s is no error without an id", w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options %q", got)
	}
}

func TestMain(m *testing.M) { leaktest.Main(m) }

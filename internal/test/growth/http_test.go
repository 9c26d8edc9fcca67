//go:build soak

package growth

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An endpoint is a server over streamable HTTP, without a network.
type endpoint struct {
	testing.TB
	handler http.Handler
	streams *sync.WaitGroup
}

func newEndpoint(tb testing.TB, s *server.Server) *endpoint {
	tb.Helper()
	handler := streamable.Handler(s, &streamable.Options{Limits: transport.Limits{
		Calls: -1, CallsPerPrincipal: -1, Sessions: -1, SessionsPerPrincipal: -1, Subscriptions: -1,
	}})
	e := &endpoint{tb, handler, &sync.WaitGroup{}}
	tb.Cleanup(func() {
		must(tb, handler.Close())
		must(tb, s.Shutdown(context.Background()))
		e.streams.Wait()
	})
	return e
}

// A request is one of a client. Without a session it has the version 2026-07-28.
type request struct {
	session, principal string
	method, name       string
	params             string // members
	header             http.Header
}

func (r request) build(e *endpoint) *http.Request {
	e.Helper()
	method, body := http.MethodPost, ""
	switch {
	case r.method == "": // the stream of a session
		method = http.MethodGet
	case r.session != "" || r.method == mcp.MethodInitialize:
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, r.method, r.params)
	default:
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{%q:%q,%q:{}},%s}}`,
			r.method, mcp.MetaProtocolVersion, mcp.Version20260728, mcp.MetaClientCapabilities, r.params)
	}
	built, err := http.NewRequestWithContext(transport.WithPrincipal(e.Context(), r.principal), method, "http://localhost/mcp", strings.NewReader(body))
	must(e, err)
	built.RemoteAddr = "192.0.2.1:1234"
	if r.header != nil {
		built.Header = r.header.Clone()
	}
	built.Header.Set("Content-Type", "application/json")
	built.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case method == http.MethodGet:
		built.Header.Set("Accept", "text/event-stream")
		fallthrough
	case r.session != "":
		built.Header.Set("Mcp-Session-Id", r.session)
	case r.method != mcp.MethodInitialize:
		built.Header.Set("MCP-Protocol-Version", string(mcp.Version20260728))
		built.Header.Set("Mcp-Method", r.method)
		if r.name != "" {
			built.Header.Set("Mcp-Name", r.name)
		}
	}
	return built
}

// do makes a request that succeeds.
func (e *endpoint) do(r request) *httptest.ResponseRecorder {
	e.Helper()
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r.build(e))
	if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"result":`)) {
		e.Fatalf("%s: %d %s", r.method, w.Code, w.Body)
	}
	return w
}

// open opens a session of 2025-11-25.
func (e *endpoint) open(principal string) (session string) {
	e.Helper()
	w := e.do(request{principal: principal, method: mcp.MethodInitialize, params: `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"client","version":"1"}`})
	return w.Header().Get("Mcp-Session-Id")
}

// openAll opens sessions of n principals.
func (e *endpoint) openAll(n int) (sessions []string) {
	e.Helper()
	for i := range n {
		sessions = append(sessions, e.open(principal(i)))
	}
	return sessions
}

func principal(i int) string { return fmt.Sprint("principal", i) }

// callTool0 returns the call of a tool.
func callTool0(session, principal string) request {
	return request{session: session, principal: principal, method: mcp.MethodToolsCall, name: "tool0", params: `"name":"tool0","arguments":{}`}
}

// A stream is a response that does not end. It signals each write that has a text.
type stream struct {
	header http.Header
	text   []byte
	signal func()
	opened func()
}

func (s *stream) Header() http.Header { return s.header }
func (s *stream) WriteHeader(int)     {}
func (s *stream) Flush()              { s.opened() }

func (s *stream) Write(p []byte) (int, error) {
	if bytes.Contains(p, s.text) {
		s.signal()
	}
	return len(p), nil
}

// stream makes a request whose response does not end before the test, and waits for the start of the response. signal is
// called for each write with the text.
func (e *endpoint) stream(r request, text string, signal func()) {
	e.Helper()
	built := r.build(e)
	ctx, cancel := context.WithCancel(built.Context())
	e.Cleanup(cancel)
	opened := newCounter(e)
	w := &stream{http.Header{}, []byte(text), signal, sync.OnceFunc(opened.add)}
	e.streams.Go(func() { e.handler.ServeHTTP(w, built.WithContext(ctx)) })
	opened.wait(1)
}

// A counter counts what arrives.
type counter struct {
	testing.TB
	arrived chan struct{}
}

func newCounter(tb testing.TB) *counter { return &counter{tb, make(chan struct{}, 1<<16)} }

func (c *counter) add() { c.arrived <- struct{}{} }

// wait waits until n have arrived.
func (c *counter) wait(n int) {
	c.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for i := range n {
		select {
		case <-c.arrived:
		case <-late.C:
			c.Fatalf("%d of %d have arrived", i, n)
		}
	}
}

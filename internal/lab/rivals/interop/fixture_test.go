package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// checkTimeout bounds one check.
const checkTimeout = 20 * time.Second

// pause is the retry delay of a disconnected client.
const pause = 100 * time.Millisecond

// A pair is a client and a server, with a transport and a version.
type pair struct {
	client, server string
	// transport is streamable, sse, or fallback: the client dials streamable, and the server
	// supports only sse.
	transport string
	version   string
}

func (p pair) String() string {
	return fmt.Sprintf("%s with %s/%s/%s", p.client, p.server, p.transport, p.version)
}

var clients = map[string]func(context.Context, *testing.T, *setup) (testClient, error){
	"dovetail": connectDovetail, "go-sdk": connectGoSDK, "mcp-go": connectMCPGo,
}

var servers = map[string]func(*testing.T, *setup) *testServer{
	"dovetail": openDovetail,
	"go-sdk":   openGoSDK, "go-sdk json": openGoSDKWithoutStreams, "go-sdk stateless": openGoSDKWithoutSessions,
	"mcp-go": openMCPGo, "mcp-go legacy": openMCPGoLegacy,
	"proxy of bad entries": openBadProxy, "relay of bad entries": openBadRelay,
}

// A fixture is a client that is connected to a server.
type fixture struct {
	pair
	setup   *setup
	client  testClient
	server  *testServer
	journal *journal
	proxy   *proxy
	changes int // number of changes that the test has received
}

// open connects a pair. prepare may modify the setup.
func open(ctx context.Context, t *testing.T, p pair, prepare func(*setup)) *fixture {
	t.Helper()
	s := &setup{transport: p.transport, version: p.version, journal: newJournal()}
	s.person = func(string) (string, map[string]any) { return "decline", nil }
	if prepare != nil {
		prepare(s)
	}
	h := servers[p.server](t, s)
	f := &fixture{pair: p, setup: s, server: h, journal: s.journal, proxy: newProxy(h.handler)}
	web := httptest.NewServer(f.proxy)
	// mcp-go cancels the request with an answer to a question when the call ends. net/http may
	// then close a connection that another request already uses.
	carrier := &http.Transport{DisableKeepAlives: p.client == "mcp-go"}
	s.url, s.http = web.URL, &http.Client{Transport: carrier}
	t.Cleanup(func() {
		f.server.leave()
		web.Close()
		carrier.CloseIdleConnections()
	})
	g, err := clients[p.client](ctx, t, s)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	f.client = g
	return f
}

// restart replaces the server by a new one of the same SDK.
func (s *fixture) restart(t *testing.T) {
	t.Helper()
	old := s.server
	s.server = servers[s.pair.server](t, s.setup)
	s.proxy.forwardTo(s.server.handler)
	old.leave()
}

// callText calls a tool that returns one text.
func (s *fixture) callText(ctx context.Context, t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	answer, err := s.client.call(ctx, tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if len(answer.content) != 1 {
		t.Fatalf("%s: content %q, want one text", tool, answer.content)
	}
	return answer.content[0]
}

// A proxy observes the requests to a replaceable server.
type proxy struct {
	handler   atomic.Pointer[http.Handler]
	listening chan struct{} // receives a value for each stream that a GET opens
	resumed   chan struct{} // receives a value for each GET that resumes a stream
	regions   chan string   // receives the values of the header Mcp-Param-Region
}

func newProxy(h http.Handler) *proxy {
	d := &proxy{listening: make(chan struct{}, 64), resumed: make(chan struct{}, 64), regions: make(chan string, 64)}
	d.forwardTo(h)
	return d
}

// forwardTo replaces the server.
func (d *proxy) forwardTo(h http.Handler) { d.handler.Store(&h) }

func (d *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if region := r.Header.Get("Mcp-Param-Region"); region != "" {
		d.regions <- region
	}
	if r.Method == http.MethodGet {
		w = &streamWriter{ResponseWriter: w, proxy: d}
		if r.Header.Get("Last-Event-ID") != "" {
			d.resumed <- struct{}{}
		}
	}
	(*d.handler.Load()).ServeHTTP(w, r)
}

// A streamWriter is the response to a GET.
type streamWriter struct {
	http.ResponseWriter
	proxy *proxy
	sent  bool // the header was sent
}

func (e *streamWriter) WriteHeader(status int) {
	e.ResponseWriter.WriteHeader(status)
	if status == http.StatusOK && !e.sent {
		e.proxy.listening <- struct{}{}
	}
	e.sent = true
}

func (e *streamWriter) Write(data []byte) (int, error) {
	if !e.sent {
		e.WriteHeader(http.StatusOK)
	}
	return e.ResponseWriter.Write(data)
}

// Flush sends the buffered data.
func (e *streamWriter) Flush() {
	if !e.sent {
		e.WriteHeader(http.StatusOK)
	}
	e.ResponseWriter.(http.Flusher).Flush()
}

// Unwrap supports http.ResponseController.
func (e *streamWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// A journal records the notifications and questions that a client receives, one line each.
type journal struct {
	mu    sync.Mutex
	lines []string
	grown chan struct{} // closed and replaced when a line is added
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

func (j *journal) write(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
	close(j.grown)
	j.grown = make(chan struct{})
}

// with returns the lines that begin with a word, without that word.
func (j *journal) with(word string) []string {
	lines, _ := j.look(word)
	return lines
}

func (j *journal) look(word string) (lines []string, grown <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			lines = append(lines, rest)
		}
	}
	return lines, j.grown
}

// await waits until there are n lines that begin with a word.
func (j *journal) await(ctx context.Context, t *testing.T, n int, word string) []string {
	t.Helper()
	for {
		lines, grown := j.look(word)
		if len(lines) >= n {
			return lines
		}
		select {
		case <-grown:
		case <-ctx.Done():
			t.Fatalf("got %d lines of %q, want %d: %q", len(lines), word, n, j.all())
		}
	}
}

// all returns every line.
func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func initialize(version mcp.Version) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`, version)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// open shakes hands and returns a rig whose requests belong to the session.
func (r *rig) open(version mcp.Version) *rig {
	r.Helper()
	resp := r.post(initialize(version)).is(http.StatusOK, `"protocolVersion":"`+string(version)+`"`)
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		r.Fatal("the answer to initialize has no Mcp-Session-Id")
	}
	s := r.with("Mcp-Session-Id", id)
	s.post(initialized).is(http.StatusAccepted)
	return s
}

func call(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":1}}}`, id, tool, arguments)
}

// newLegacyServer has tools that need a session to be seen in full.
func newLegacyServer() *server.Server {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		name, err := server.Elicit[struct {
			Name string `json:"name"`
		}](r, "who", "Who are you?")
		return "hello " + name.Name, err
	})
	server.AddTool(s, server.Tool{Name: "detach"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Detach(250 * time.Millisecond)
		if err := r.Progress(ctx, 1, 0, "alone"); err != nil {
			return "", err
		}
		return "back", nil
	})
	return s
}

func TestSessionCallIsJSON(t *testing.T) {
	for _, version := range mcp.Versions()[1:4] {
		s := serve(t, newServer(), nil).open(version)
		got := s.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"id":1`, `"text":"5"`)
		if got := got.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type is %s", version, got)
		}
	}
}

func TestSessionProgressPrecedesTheResult(t *testing.T) {
	s := serve(t, newServer(), nil).open(mcp.Version20251125)
	got := s.post(call(1, "steps", `{"a":20,"b":0}`))
	if event := got.next(); event.ID == "" || len(event.Data) > 0 {
		t.Errorf("the stream begins with %+v, want an id without data", event)
	}
	seen := map[string]bool{}
	for i := range 20 {
		event := got.message(fmt.Sprintf(`"progress":%d,`, i+1))
		if event.ID == "" || seen[event.ID] {
			t.Errorf("the id %q is not new", event.ID)
		}
		seen[event.ID] = true
	}
	got.message(`"text":"done"`)
	got.ends()
}

// Before 2025-11-25, clients parse empty data as JSON.
func TestOlderSessionsAreNotPrimed(t *testing.T) {
	s := serve(t, newServer(), nil).open(mcp.Version20250618)
	s.post(call(1, "steps", `{"a":1,"b":0}`)).message(`"progress":1,`)
}

func TestSessionAsksOnTheStreamOfTheCall(t *testing.T) {
	s := serve(t, newLegacyServer(), nil).open(mcp.Version20250618)
	got := s.post(call(1, "ask", `{}`))
	got.message(`"method":"elicitation/create"`, `"id":1,`)
	s.post(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ann"}}}`).is(http.StatusAccepted)
	got.message(`"id":1,"result"`, "hello Ann")
	got.ends()
}

// A tool hangs up; the client comes back for what it missed and for the result.
func TestDetachedCallIsResumed(t *testing.T) {
	s := serve(t, newLegacyServer(), nil).open(mcp.Version20251125)
	got := s.post(call(1, "detach", `{}`))
	prime := got.next()
	got.ends()
	if retry := got.events.Retry(); retry != 250*time.Millisecond {
		t.Errorf("the client is to come back after %v", retry)
	}
	for range 2 { // as often as it likes
		again := s.with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
		first := again.message(`"message":"alone"`)
		again.message(`"text":"back"`)
		again.ends()
		rest := s.with("Last-Event-ID", first.ID).send(t.Context(), http.MethodGet, "")
		rest.message(`"text":"back"`)
		rest.ends()
	}
}

func TestDetachDoesNothingElsewhere(t *testing.T) {
	r := serve(t, newLegacyServer(), nil)
	s := r.open(mcp.Version20250618)
	got := s.post(call(1, "detach", `{}`))
	got.message(`"alone"`)
	got.message(`"back"`)
	modern := r.modern("tools/call", "detach").post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"detach",` + modernMeta + `}}`)
	modern.message(`"alone"`)
	modern.message(`"back"`)
	s.with("Accept", "application/json").post(call(2, "detach", `{}`)).is(http.StatusOK, `"back"`)
}

func TestChangesComeOnTheSessionsOwnStream(t *testing.T) {
	srv := newServer()
	s := serve(t, srv, nil).open(mcp.Version20251125)
	own := s.send(t.Context(), http.MethodGet, "")
	prime := own.next()
	s.send(t.Context(), http.MethodGet, "").is(http.StatusConflict)
	server.AddTool(srv, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	own.message("notifications/tools/list_changed")

	again := s.with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
	own.ends() // the client that comes back takes the place of the one that is there
	again.message("notifications/tools/list_changed")
}

func TestSessionEnds(t *testing.T) {
	s := serve(t, newServer(), nil).open(mcp.Version20251125)
	own := s.send(t.Context(), http.MethodGet, "")
	own.next()
	s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
	own.ends()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		s.send(t.Context(), method, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).is(http.StatusNotFound)
	}
}

// asPrincipal authenticates by a header, as middleware does.
func asPrincipal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get("X-User"))))
	})
}

func TestSessionBelongsToItsPrincipal(t *testing.T) {
	for _, opts := range []*streamable.Options{nil, {SessionKeys: [][]byte{[]byte(strings.Repeat("k", 32))}}} {
		r := serve(t, newServer(), opts)
		r.http.Config.Handler = asPrincipal(r.endpoint)
		ann := r.with("X-User", "ann").open(mcp.Version20251125)
		ann.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).is(http.StatusOK)
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			body := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
			stolen := ann.with("X-User", "bob").send(t.Context(), method, body).is(http.StatusNotFound).body()
			unknown := ann.with("X-User", "bob", "Mcp-Session-Id", "nonsense").send(t.Context(), method, body).is(http.StatusNotFound).body()
			if stolen != unknown {
				t.Errorf("%s: a stolen session id is answered with %s, an unknown one with %s", method, stolen, unknown)
			}
		}
	}
}

func TestBatches(t *testing.T) {
	r := serve(t, newServer(), nil)
	batch := `[` + call(1, "sum", `{"a":1,"b":1}`) + `,` + initialized + `,` + call(2, "sum", `{"a":2,"b":2}`) + `]`
	s := r.open(mcp.Version20250326)
	s.post(batch).is(http.StatusOK, `[{"jsonrpc"`, `"text":"2"`, `"text":"4"`)
	s.post(`[` + initialized + `]`).is(http.StatusAccepted)
	s.post(`[]`).is(http.StatusBadRequest, `-32600`)
	s.post(`[`+initialize(mcp.Version20250326)+`]`).is(http.StatusBadRequest, `-32600`)
	s.post(`[`+sum(1, 2, 3)+`]`).is(http.StatusBadRequest, `-32600`)
	r.open(mcp.Version20250618).post(batch).is(http.StatusBadRequest, `-32600`)
}

// Replicas that share keys serve each other's sessions; one that was deleted is over
// in those that share a store.
func TestSealedSessions(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	opts := func() *streamable.Options { return &streamable.Options{SessionKeys: [][]byte{key}} }
	first, second, stranger := serve(t, newLegacyServer(), opts()), serve(t, newLegacyServer(), opts()), serve(t, newLegacyServer(), nil)
	s := first.open(mcp.Version20250618)
	id := s.headers["Mcp-Session-Id"]
	if len(id) > 1024 {
		t.Errorf("the id has %d bytes", len(id))
	}
	other := second.with("Mcp-Session-Id", id)
	other.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"text":"5"`)
	asked := other.post(call(2, "ask", `{}`)) // its capabilities are known there too
	asked.message("elicitation/create")
	stranger.with("Mcp-Session-Id", id).post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusNotFound)
	s.with("Mcp-Session-Id", id+"A").post(call(1, "sum", `{}`)).is(http.StatusNotFound)

	s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
	s.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusNotFound)
	other.post(call(3, "sum", `{"a":2,"b":3}`)).is(http.StatusOK)
}

func TestHangingUpCancelsNothingInASession(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	srv := newServer()
	server.AddTool(srv, server.Tool{Name: "hold"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		if err := r.Progress(ctx, 1, 0, ""); err != nil {
			return "", err
		}
		close(started)
		<-release
		return "held", ctx.Err()
	})
	s := serve(t, srv, nil).open(mcp.Version20251125)
	ctx, cancel := context.WithCancel(t.Context())
	got := s.send(ctx, http.MethodPost, call(1, "hold", `{}`))
	got.next()
	event := got.message(`"progress":1`)
	<-started
	cancel()
	again := s.with("Last-Event-ID", event.ID).send(t.Context(), http.MethodGet, "")
	close(release)
	again.message(`"text":"held"`)
	again.ends()
}

func TestHangingUpCancelsAModernCall(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	srv := newServer()
	server.AddTool(srv, server.Tool{Name: "hold"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		close(cancelled)
		return "", ctx.Err()
	})
	r := serve(t, srv, nil).modern("tools/call", "hold")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.http.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold",`+modernMeta+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := r.http.Client().Do(req); err == nil {
		resp.Body.Close()
		t.Error("the request was answered")
	}
	<-cancelled
}

package streamable_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func initialize(version mcp.Version) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`, version)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// open opens a session and returns a rig whose requests belong to the session.
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

// newLegacyServer returns a server whose tools use sessions.
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
func TestNoEmptyEventBefore20251125(t *testing.T) {
	s := serve(t, newServer(), nil).open(mcp.Version20250618)
	s.post(call(1, "steps", `{"a":1,"b":0}`)).message(`"progress":1,`)
}

func TestSessionCallsClientOnStreamOfCall(t *testing.T) {
	s := serve(t, newLegacyServer(), nil).open(mcp.Version20250618)
	got := s.post(call(1, "ask", `{}`))
	got.message(`"method":"elicitation/create"`, `"id":1,`)
	s.post(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ann"}}}`).is(http.StatusAccepted)
	got.message(`"id":1,"result"`, "hello Ann")
	got.ends()
}

// A tool detaches; the client resumes the stream and gets the rest and the result.
func TestDetachedCallIsResumed(t *testing.T) {
	s := serve(t, newLegacyServer(), nil).open(mcp.Version20251125)
	got := s.post(call(1, "detach", `{}`))
	prime := got.next()
	got.ends()
	if retry := got.events.Retry(); retry != 250*time.Millisecond {
		t.Errorf("the retry delay is %v", retry)
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

func TestDetachWithoutResumption(t *testing.T) {
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

func TestChangesAreUnsolicitedMessages(t *testing.T) {
	srv := newServer()
	s := serve(t, srv, nil).open(mcp.Version20251125)
	own := s.send(t.Context(), http.MethodGet, "")
	prime := own.next()
	server.AddTool(srv, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	own.message("notifications/tools/list_changed")

	again := s.with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
	own.ends() // the resumed stream replaces the open one
	again.message("notifications/tools/list_changed")
}

// The newest request for the stream of a session replaces the one before: a client that asks again has lost it.
func TestNewestStreamReplaces(t *testing.T) {
	for _, version := range []mcp.Version{mcp.Version20250326, mcp.Version20250618, mcp.Version20251125} {
		srv := newServer()
		s := serve(t, srv, nil).open(version)
		var streams []*answer
		for range 3 {
			streams = append(streams, s.send(t.Context(), http.MethodGet, "").is(http.StatusOK))
			if version == mcp.Version20251125 {
				streams[len(streams)-1].next() // the empty event
			}
			if n := len(streams); n > 1 {
				streams[n-2].ends()
			}
		}
		server.AddTool(srv, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		streams[2].message("notifications/tools/list_changed")
		s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
		streams[2].ends()
	}
}

// The stream of a call ends with an error if the client ends the session.
func TestDeleteEndsStreamingCall(t *testing.T) {
	for _, version := range []mcp.Version{mcp.Version20250326, mcp.Version20250618, mcp.Version20251125} {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "busy"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			r.Logger("busy").Info("working")
			<-ctx.Done()
			return "", ctx.Err()
		})
		s := serve(t, srv, nil).open(version)
		got := s.post(call(7, "busy", `{}`))
		if version == mcp.Version20251125 {
			got.next() // the empty event
		}
		got.message("working")
		s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
		got.message(`"id":7,"error":{"code":-32603,"message":"the session ended during the call; the call may have been executed"}`)
		got.ends()
		if version != mcp.Version20250326 {
			continue
		}
		s = serve(t, srv, nil).open(version)
		got = s.post(`[` + call(7, "sum", `{"a":1,"b":1}`) + `,` + call(8, "busy", `{}`) + `,` + initialized + `,` + call(9, "busy", `{}`) + `]`)
		got.message("working")
		got.message("working")
		s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
		got.message(`[{"jsonrpc":"2.0","id":7,`, `"id":8,"error":{"code":-32603,"message":"the session ended during the call; the call may have been executed"}`, `"id":9,"error"`)
		got.ends()
	}
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

// asPrincipal takes the principal from a header, like middleware.
func asPrincipal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get("X-User"))))
	})
}

func TestSessionBelongsToItsPrincipal(t *testing.T) {
	shared := newStore(t)
	one, other := serve(t, sharing{newServer(), shared}, nil), serve(t, sharing{newServer(), shared}, nil)
	for _, r := range []*rig{one, other} {
		r.http.Config.Handler = asPrincipal(r.endpoint)
	}
	ann := one.with("X-User", "ann").open(mcp.Version20251125)
	ann.post(ping).is(http.StatusOK)
	for _, r := range []*rig{one, other} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			stolen := r.with("X-User", "bob", "Mcp-Session-Id", ann.headers["Mcp-Session-Id"])
			refused := stolen.send(t.Context(), method, ping).is(http.StatusNotFound).body()
			unknown := stolen.with("Mcp-Session-Id", "nonsense").send(t.Context(), method, ping).is(http.StatusNotFound).body()
			if refused != unknown {
				t.Errorf("%s: a stolen session id is answered with %s, an unknown one with %s", method, refused, unknown)
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

func TestDisconnectDoesNotCancelSessionCall(t *testing.T) {
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
	waittest.Receive(t, "the start of the call", started)
	cancel()
	again := s.with("Last-Event-ID", event.ID).send(t.Context(), http.MethodGet, "")
	close(release)
	again.message(`"text":"held"`)
	again.ends()
}

func TestDisconnectCancelsModernCall(t *testing.T) {
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
	waittest.Receive(t, "the cancellation", cancelled)
}

type regional struct {
	Region string `json:"region" jsonschema:"x-mcp-header=Region"`
	Floor  int    `json:"floor,omitempty" jsonschema:"x-mcp-header=Floor"`
}

// newRegionalServer returns a server with a tool with parameters in headers, and one that
// needs a capability that the test client lacks.
func newRegionalServer() *server.Server {
	s := newLegacyServer()
	server.AddTool(s, server.Tool{Name: "regional"}, func(_ context.Context, _ *server.Request, in regional) (string, error) {
		return "in " + in.Region, nil
	})
	return s
}

// Each request fails several checks; the expected one comes first.
func TestOrderOfChecks(t *testing.T) {
	const (
		other   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0","io.modelcontextprotocol/clientCapabilities":{}}`
		legacy  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}`
		partial = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	)
	request := func(method, members string) string {
		return `{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":{` + members + `}}`
	}
	headers := func(version, method, name string) []string {
		return []string{"MCP-Protocol-Version", version, "Mcp-Method", method, "Mcp-Name", name}
	}
	for _, test := range []struct {
		name    string
		headers []string
		body    string
		status  int
		code    string // "" when the request has no answer
	}{
		{"host before anything", []string{"Host", "evil.example.com", "Content-Type", "text/plain"}, `{`, 403, "-32600"},
		{"origin before anything", []string{"Origin", "https://evil.example.com", "Content-Type", "text/plain"}, `{`, 403, "-32600"},
		{"type before syntax", []string{"Content-Type", "text/plain"}, `{`, 415, "-32600"},
		{"syntax", headers("2026-07-28", "", ""), `{`, 400, "-32700"},
		{"two messages", nil, sum(1, 1, 1) + sum(2, 2, 2), 400, "-32700"},
		{"no message", headers("2026-07-28", "", ""), `{"jsonrpc":"2.0","id":"x"}`, 400, "-32600"},
		{"null id", headers("2026-07-28", "", ""), `{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{` + modernMeta + `}}`, 400, "-32600"},
		{"empty batch", nil, `[]`, 400, "-32600"},
		{"batch with a version", nil, `[` + sum(1, 1, 1) + `]`, 400, "-32600"},
		{"batch without session", nil, `[` + initialized + `]`, 400, "-32600"},
		{"response without session", nil, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, "-32600"},

		{"_meta lacks something before headers", headers("v999.0.0", "other", "other"), request("tools/list", partial), 400, "-32602"},
		{"_meta is missing under a modern header", headers("2026-07-28", "tools/list", ""), request("tools/list", ""), 400, "-32602"},
		{"_meta is missing under an unknown header", headers("v999.0.0", "tools/list", ""), request("tools/list", ""), 400, "-32602"},
		{"ping has no place there either", headers("2026-07-28", "ping", ""), request("ping", ""), 400, "-32602"},
		{"version header is missing", headers("", "other", ""), request("tools/list", modernMeta), 400, "-32020"},
		{"version header differs before version", headers("2026-07-28", "other", ""), request("tools/list", other), 400, "-32020"},
		{"version header twice", headers("2026-07-28\n2026-07-28", "tools/list", ""), request("tools/list", modernMeta), 400, "-32020"},
		{"version before method", headers("v999.0.0", "other", ""), request("tools/list", other), 400, "-32022"},
		{"a legacy version is not served that way", headers("2025-11-25", "tools/list", ""), request("tools/list", legacy), 400, "-32022"},
		{"method header is missing", headers("2026-07-28", "", ""), request("nonsense", modernMeta), 400, "-32020"},
		{"method header differs in case", headers("2026-07-28", "Tools/list", ""), request("tools/list", modernMeta), 400, "-32020"},
		{"name header is missing", headers("2026-07-28", "tools/call", ""), request("tools/call", `"name":"regional",`+modernMeta), 400, "-32020"},
		{"name header differs", headers("2026-07-28", "tools/call", "other"), request("tools/call", `"name":"regional",`+modernMeta), 400, "-32020"},
		{"parameter header is missing", headers("2026-07-28", "tools/call", "regional"), request("tools/call", `"name":"regional","arguments":{"region":"eu"},`+modernMeta), 400, "-32020"},
		{"method does not exist", headers("2026-07-28", "nonsense", ""), request("nonsense", modernMeta), 404, "-32601"},
		{"initialize that describes itself", headers("2026-07-28", "initialize", ""), request("initialize", modernMeta), 404, "-32601"},
		{"capability is missing", headers("2026-07-28", "tools/call", "ask"), request("tools/call", `"name":"ask",`+modernMeta), 400, "-32021"},
		{"what the call itself refuses", headers("2026-07-28", "tools/call", "nonsense"), request("tools/call", `"name":"nonsense",`+modernMeta), 200, "-32602"},

		{"initialize under a modern header", headers("2026-07-28", "", ""), initialize(mcp.Version20251125), 400, "-32020"},
		{"a notification that describes itself", nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + modernMeta + `}}`, 202, ""},
		{"a notification under a modern header", headers("2026-07-28", "", ""), initialized, 202, ""},
		{"a notification with a null id", nil, `{"jsonrpc":"2.0","id":null,"method":"notifications/cancelled","params":{` + modernMeta + `}}`, 202, ""},
		{"a call without session", nil, request("tools/list", ""), 400, "-32600"},
		{"a call of an unknown session", []string{"Mcp-Session-Id", "nonsense"}, request("tools/list", ""), 404, "-32600"},
		{"Accept", []string{"Accept", "text/html"}, `{`, 406, "-32600"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, newRegionalServer(), nil)
			resp := r.with(test.headers...).post(test.body)
			if resp.StatusCode != test.status {
				t.Errorf("got status %s, want %d", resp.Status, test.status)
			}
			body := resp.body()
			if test.code == "" {
				if body != "" {
					t.Errorf("the body is %s", body)
				}
				return
			}
			answer, err := jsonscan.ReadObject([]byte(body))
			if err != nil {
				t.Fatalf("the body is %s: %v", body, err)
			}
			refused, err := jsonscan.ReadObject(answer.Get("error"))
			if err != nil || string(refused.Get("code")) != test.code {
				t.Errorf("the body is %s, want an error %s", body, test.code)
			}
			if strings.Contains(test.body, `"id":"x","method"`) && test.code != "-32600" && string(answer.Get("id")) != `"x"` {
				t.Errorf("the body is %s, want the id of the request", body)
			}
		})
	}
}

func TestParametersInHeaders(t *testing.T) {
	r := serve(t, newRegionalServer(), nil).modern("tools/call", "regional")
	body := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"regional","arguments":` + arguments + `,` + modernMeta + `}}`
	}
	for _, test := range []struct {
		region, floor, arguments string
		status                   int
	}{
		{"eu", "", `{"region":"eu"}`, 200},
		{"eu", "3", `{"region":"eu","floor":3}`, 200},
		{"eu", "3.0", `{"region":"eu","floor":3}`, 200},
		{"=?base64?5pel5pys?=", "", `{"region":"日本"}`, 200},
		{"=?base64?!?=", "", `{"region":"日本"}`, 400},
		{"us", "", `{"region":"eu"}`, 400},
		{"eu\neu", "", `{"region":"eu"}`, 400},
		{"eu", "4", `{"region":"eu","floor":3}`, 400},
		{"eu", "4", `{"region":"eu"}`, 400},
	} {
		headers := []string{"Mcp-Param-Region", test.region}
		if test.floor != "" {
			headers = append(headers, "Mcp-Param-Floor", test.floor)
		}
		resp := r.with(headers...).post(body(test.arguments))
		if resp.StatusCode != test.status {
			t.Errorf("%+v: got status %s, want %d: %s", test, resp.Status, test.status, resp.body())
		}
	}
	r.with("Mcp-Param-Region", "eu", "Mcp-Param-Other", "whatever").post(body(`{"region":"eu"}`)).is(http.StatusOK, "in eu")
}

// A secondNames provider offers an entry that is called under a second name too.
type secondNames struct{ catalog *server.Catalog }

func (p secondNames) Catalog() *server.Catalog { return p.catalog }
func (p secondNames) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// Headers are compared too if a call names its tool by a second name, which no list has.
func TestParametersInHeadersOfSecondNames(t *testing.T) {
	entry, err := server.NewTool(server.Tool{Name: "regional"}, func(_ context.Context, _ *server.Request, in regional) (string, error) {
		return "in " + in.Region, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "names", Version: "1"}, nil)
	resolve := func(_ context.Context, _ mcp.Kind, name string) (*server.Entry, error) {
		if name != "local" {
			return nil, nil
		}
		return entry, nil
	}
	if err := s.Mount(secondNames{server.NewCatalog([]*server.Entry{entry}, &server.CatalogOptions{Resolve: resolve})}, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	for _, name := range []string{"regional", "local", "unknown"} {
		r := serve(t, s, nil).modern("tools/call", name)
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{"region":"eu"},` + modernMeta + `}}`
		if name == "unknown" {
			r.post(body).is(http.StatusOK, "-32602")
			continue
		}
		r.with("Mcp-Param-Region", "eu").post(body).is(http.StatusOK, "in eu")
		r.with("Mcp-Param-Region", "us").post(body).is(http.StatusBadRequest, "-32020")
		r.post(body).is(http.StatusBadRequest, "-32020")
	}
}

// The headers of a tool with variants are compared with the arguments of the variant that the caller sees.
func TestParametersInHeadersOfVariants(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "variants", Version: "1"}, nil)
	guards := func(principal string) []mcp.Guard {
		return []mcp.Guard{{Name: principal, Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool { return caller.Principal == principal }}}
	}
	server.AddTool(s, server.Tool{Name: "regional", Guards: guards("ann")}, func(_ context.Context, _ *server.Request, in regional) (string, error) {
		return "in " + in.Region, nil
	})
	server.AddTool(s, server.Tool{Name: "regional", Guards: guards("bob")}, func(_ context.Context, _ *server.Request, in struct {
		Region string `json:"region"`
		City   string `json:"city" jsonschema:"x-mcp-header=City"`
	}) (string, error) {
		return "at " + in.City, nil
	})
	r := serve(t, s, nil).modern("tools/call", "regional")
	r.http.Config.Handler = asPrincipal(r.endpoint)
	body := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"regional","arguments":` + arguments + `,` + modernMeta + `}}`
	}
	ann, bob, eve := r.with("X-User", "ann"), r.with("X-User", "bob"), r.with("X-User", "eve")
	ann.with("Mcp-Param-Region", "eu").post(body(`{"region":"eu"}`)).is(http.StatusOK, "in eu")
	ann.with("Mcp-Param-Region", "us").post(body(`{"region":"eu"}`)).is(http.StatusBadRequest, "-32020")
	ann.post(body(`{"region":"eu"}`)).is(http.StatusBadRequest, "-32020")
	bob.with("Mcp-Param-City", "rome").post(body(`{"region":"eu","city":"rome"}`)).is(http.StatusOK, "at rome")
	bob.with("Mcp-Param-City", "rome", "Mcp-Param-Region", "us").post(body(`{"region":"eu","city":"rome"}`)).is(http.StatusOK, "at rome")
	bob.with("Mcp-Param-City", "oslo").post(body(`{"region":"eu","city":"rome"}`)).is(http.StatusBadRequest, "-32020")
	bob.with("Mcp-Param-Region", "eu").post(body(`{"region":"eu","city":"rome"}`)).is(http.StatusBadRequest, "-32020")
	eve.with("Mcp-Param-Region", "eu").post(body(`{"region":"eu"}`)).is(http.StatusOK, "-32602", "unknown tool")
}

// A request of a version without sessions ignores them.
func TestModernRequestsIgnoreSessions(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/call", "sum").with("Mcp-Session-Id", "nonsense", "Last-Event-ID", "1")
	resp := r.post(sum(1, 2, 3)).is(http.StatusOK, `"5"`)
	if got := resp.Header.Get("Mcp-Session-Id"); got != "" {
		t.Errorf("Mcp-Session-Id is %s", got)
	}
}

func TestMethods(t *testing.T) {
	r := serve(t, newServer(), nil)
	for _, method := range []string{"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"} {
		resp := r.send(t.Context(), method, "")
		if allow := resp.is(http.StatusMethodNotAllowed).Header.Get("Allow"); allow != "POST, GET, DELETE" {
			t.Errorf("%s: Allow is %s", method, allow)
		}
	}
	r.send(t.Context(), http.MethodGet, "").is(http.StatusBadRequest)
	r.send(t.Context(), http.MethodDelete, "").is(http.StatusBadRequest)
	r.with("Accept", "application/json").send(t.Context(), http.MethodGet, "").is(http.StatusNotAcceptable)
}

// A client that accepts only streams gets one. A client that accepts none gets only the
// result.
func TestAccept(t *testing.T) {
	r := serve(t, newServer(), nil)
	r.modern("tools/call", "sum").with("Accept", "text/event-stream").post(sum(1, 2, 3)).message(`"5"`)
	r.open(mcp.Version20251125).with("Accept", "text/event-stream").post(call(1, "sum", `{"a":2,"b":3}`)).next()
	steps := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"a":2,"b":0},` + modernMeta + `}}`
	r.modern("tools/call", "steps").with("Accept", "application/json").post(steps).is(http.StatusOK, `"done"`)
	r.open(mcp.Version20251125).with("Accept", "application/json").post(call(1, "steps", `{"a":2,"b":0}`)).is(http.StatusOK, `"done"`)

	r.modern("subscriptions/listen", "").with("Accept", "application/json").post(listen).is(http.StatusNotAcceptable, `"id":1`)
}

func TestLimitMessageBytes(t *testing.T) {
	r := serve(t, newServer(), &streamable.Options{Limits: transport.Limits{MessageBytes: 1000}}).modern("tools/call", "sum")
	r.post(sum(1, 2, 3) + strings.Repeat(" ", 1000)).is(http.StatusRequestEntityTooLarge)
	r.post(sum(1, 2, 3)).is(http.StatusOK)
}

// A memoryEndpoint is an endpoint without a network, for virtual time.
type memoryEndpoint struct {
	*testing.T
	endpoint httptransport.Endpoint
}

func newMemoryEndpoint(t *testing.T, server transport.Binder, opts *streamable.Options) *memoryEndpoint {
	d := &memoryEndpoint{t, streamable.Handler(server, opts)}
	t.Cleanup(func() { d.endpoint.Close() })
	return d
}

// send makes a request and returns its whole answer.
func (d *memoryEndpoint) send(ctx context.Context, method, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	d.endpoint.ServeHTTP(w, r)
	return w
}

// open opens a session and returns its id.
func (d *memoryEndpoint) open(ctx context.Context) string {
	d.Helper()
	w := d.send(ctx, http.MethodPost, "", initialize(mcp.Version20251125))
	if w.Code != http.StatusOK {
		d.Errorf("initialize: %d %s", w.Code, w.Body)
	}
	return w.Header().Get("Mcp-Session-Id")
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func (d *memoryEndpoint) wantStatus(session string, status int) {
	d.Helper()
	if w := d.send(d.Context(), http.MethodPost, session, ping); w.Code != status {
		d.Errorf("the status is %d, want %d: %s", w.Code, status, w.Body)
	}
}

func TestLimitSessionTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryEndpoint(t, newServer(), nil)
		used, unused := d.open(t.Context()), d.open(t.Context())
		d.wantStatus(used, http.StatusOK)
		<-time.After(31 * time.Second)
		d.wantStatus(unused, http.StatusNotFound) // unused since its handshake
		for range 3 {
			d.wantStatus(used, http.StatusOK)
			<-time.After(transport.Limits{}.WithDefaults().SessionTTL - time.Second)
		}
		d.wantStatus(used, http.StatusOK)
		<-time.After(transport.Limits{}.WithDefaults().SessionTTL + time.Second)
		d.wantStatus(used, http.StatusNotFound)
	})
}

// A session whose stream is open, or whose call runs, is not idle.
func TestUsedSessionsDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "long"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-time.After(5 * time.Hour)
			return "done", nil
		})
		d := newMemoryEndpoint(t, srv, nil)
		listening, calling := d.open(t.Context()), d.open(t.Context())
		ctx, disconnect := context.WithTimeout(t.Context(), 3*time.Hour)
		defer disconnect()
		go d.send(ctx, http.MethodGet, listening, "")
		go d.send(ctx, http.MethodPost, calling, call(2, "long", `{}`))
		<-time.After(2 * time.Hour)
		d.wantStatus(listening, http.StatusOK)
		d.wantStatus(calling, http.StatusOK)
		<-time.After(2 * time.Hour) // both clients have disconnected; the call continues
		d.wantStatus(listening, http.StatusNotFound)
		d.wantStatus(calling, http.StatusOK)
		<-time.After(2 * time.Hour)
		d.wantStatus(calling, http.StatusNotFound)
	})
}

func TestLimitSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryEndpoint(t, newServer(), &streamable.Options{Limits: transport.Limits{Sessions: 3, SessionsPerPrincipal: 2}})
		ann := transport.WithPrincipal(t.Context(), "ann")
		first := d.open(ann)
		d.open(ann)
		refused := d.send(ann, http.MethodPost, "", initialize(mcp.Version20251125))
		if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" {
			t.Errorf("one session too many of a principal: %d %v", refused.Code, refused.Header())
		}
		d.open(t.Context())
		if w := d.send(t.Context(), http.MethodPost, "", initialize(mcp.Version20251125)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one session too many: %d", w.Code)
		}
		if w := d.send(ann, http.MethodDelete, first, ""); w.Code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
		d.open(ann)
	})
}

// Comments are sent on a silent stream.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryEndpoint(t, newServer(), nil)
		id := d.open(t.Context())
		ctx, disconnect := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer disconnect()
		own := d.send(ctx, http.MethodGet, id, "")
		if n := strings.Count(own.Body.String(), "\n:"); n != 4 {
			t.Errorf("%d comments in a minute, want 4: %q", n, own.Body)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", ctx.Err()
		})
		d := newMemoryEndpoint(t, srv, nil)
		id := d.open(t.Context())
		waiting := make(chan int)
		go func() { waiting <- d.send(context.Background(), http.MethodPost, id, call(1, "wait", `{}`)).Code }()
		go func() { waiting <- d.send(context.Background(), http.MethodGet, id, "").Code }()
		listening := make(chan string)
		go func() {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},`+modernMeta+`}}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "subscriptions/listen")
			w := httptest.NewRecorder()
			d.endpoint.ServeHTTP(w, r)
			listening <- w.Body.String()
		}()
		synctest.Wait()
		if err := d.endpoint.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("the call was not ended")
		}
		if a, b := <-waiting, <-waiting; a != http.StatusOK || b != http.StatusOK {
			t.Errorf("the requests of the session end with %d and %d", a, b)
		}
		if got := <-listening; !strings.Contains(got, `"result":{`) {
			t.Errorf("the subscription ended without a result: %q", got)
		}
		d.wantStatus(id, http.StatusServiceUnavailable)
		if err := d.endpoint.Close(); err != nil {
			t.Error(err)
		}
	})
}

var quiet = slog.New(slog.DiscardHandler)

// newStubbornServer returns a server with a tool that ignores its context until it is
// released, and counts its calls.
func newStubbornServer(release <-chan struct{}) (srv *server.Server, runs *atomic.Int32) {
	srv, runs = newServer(), new(atomic.Int32)
	server.AddTool(srv, server.Tool{Name: "stubborn"}, func(context.Context, *server.Request, struct{}) (string, error) {
		runs.Add(1)
		<-release
		return "done", nil
	})
	return srv, runs
}

func cancelled(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
}

// async sends a request without waiting for its answer.
func (d *memoryEndpoint) async(ctx context.Context, method, session, body string) <-chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- d.send(ctx, method, session, body) }()
	return answered
}

// The request of a canceled call ends, and its session becomes idle.
func TestCancelledCallEndsRequest(t *testing.T) {
	wait := func(id int) string { return call(id, "wait", `{}`) }
	for name, body := range map[string]string{
		"call":            wait(1),
		"batch":           "[" + wait(1) + "," + wait(2) + "]",
		"broken response": `[{"jsonrpc":"2.0","id":1,"result":{},"error":{}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer()
				server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				})
				d := newMemoryEndpoint(t, srv, nil)
				id := d.send(t.Context(), http.MethodPost, "", initialize(mcp.Version20250326)).Header().Get("Mcp-Session-Id")
				ctx, disconnect := context.WithTimeout(t.Context(), time.Hour)
				defer disconnect()
				answered := d.async(ctx, http.MethodPost, id, body)
				synctest.Wait()
				for n := range 3 {
					d.send(t.Context(), http.MethodPost, id, cancelled(n))
				}
				synctest.Wait()
				select {
				case w := <-answered:
					if w.Code != http.StatusAccepted || w.Body.Len() > 0 {
						t.Errorf("answered with %d %s", w.Code, w.Body)
					}
				default:
					t.Error("the request goes on")
				}
				<-time.After(transport.Limits{}.WithDefaults().SessionTTL + time.Second)
				d.wantStatus(id, http.StatusNotFound)
			})
		})
	}
}

// A call that was running when its session ended is not answered as an unknown session,
// since its client would repeat it.
func TestSessionEndsDuringCall(t *testing.T) {
	for name, end := range map[string]func(d *memoryEndpoint, session string){
		"DELETE": func(d *memoryEndpoint, session string) { d.send(d.Context(), http.MethodDelete, session, "") },
		"Close":  func(d *memoryEndpoint, _ string) { d.endpoint.Close() },
	} {
		for _, test := range []struct {
			name, body string
			ids        []string // of the calls
		}{
			{"call", call(7, "stubborn", `{}`), []string{`7`}},
			{"batch", `[` + call(7, "stubborn", `{}`) + `,` + strings.Replace(call(8, "stubborn", `{}`), "8", `"a"`, 1) + `]`, []string{`7`, `"a"`}},
			{"batch of one", `[` + initialized + `,` + call(7, "stubborn", `{}`) + `]`, []string{`7`}},
			{"batch with a complete call", `[` + call(7, "sum", `{"a":1,"b":1}`) + `,` + call(8, "stubborn", `{}`) + `]`, []string{`7`, `8`}},
			{"batch with a malformed call", `[{"jsonrpc":"2.0","id":3},` + call(8, "stubborn", `{}`) + `]`, []string{`8`}},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					defer close(release)
					srv, _ := newStubbornServer(release)
					d := newMemoryEndpoint(t, srv, nil)
					id := d.send(t.Context(), http.MethodPost, "", initialize(mcp.Version20250326)).Header().Get("Mcp-Session-Id")
					answered := d.async(t.Context(), http.MethodPost, id, test.body)
					synctest.Wait()
					end(d, id)
					w := <-answered
					if w.Code != http.StatusOK || strings.HasPrefix(w.Body.String(), "[") != strings.HasPrefix(test.body, "[") || !json.Valid(w.Body.Bytes()) {
						t.Errorf("answered with %d %s", w.Code, w.Body)
					}
					for _, id := range test.ids {
						if !strings.Contains(w.Body.String(), `{"jsonrpc":"2.0","id":`+id+`,"error"`) {
							t.Errorf("answered with %s, want an error of the call %s", w.Body, id)
						}
					}
				})
			})
		}
	}
}

// A faultyStore is a store whose log fails or blocks for some entries.
type faultyStore struct {
	store.Store
	fails func(number int, entry []byte) bool // the entries of all streams are counted from 1
	hangs bool
	count atomic.Int32
}

func (f *faultyStore) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	if f.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if f.fails(int(f.count.Add(1)), data) {
		return 0, errors.New("the store is down")
	}
	return f.Store.Append(ctx, stream, data)
}

// A resumed stream never has a gap.
func TestResumptionWithoutGaps(t *testing.T) {
	for name, fails := range map[string]func(int, []byte) bool{ // the first entry is the start of the stream
		"in the middle": func(number int, _ []byte) bool { return number == 3 },
		"at the end":    func(number int, _ []byte) bool { return number == 4 },
		"too large":     func(_ int, entry []byte) bool { return strings.Contains(string(entry), `"progress":3`) },
	} {
		t.Run(name, func(t *testing.T) {
			reached, release := make(chan struct{}), make(chan struct{})
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "three"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				for i := range 3 {
					if err := r.Progress(ctx, float64(i+1), 0, ""); err != nil {
						return "", err
					}
				}
				close(reached)
				<-release
				return "done", nil
			})
			s := serve(t, sharing{srv, &faultyStore{Store: newStore(t), fails: fails}}, &streamable.Options{Logger: quiet}).open(mcp.Version20251125)
			got := s.post(call(1, "three", `{}`))
			prime := got.next()
			first := got.next()
			waittest.Receive(t, "the request at the server", reached)
			for _, id := range []string{prime.ID, first.ID} {
				s.with("Last-Event-ID", id).send(t.Context(), http.MethodGet, "").is(http.StatusBadRequest)
			}
			close(release)
			for _, want := range []string{`"progress":2`, `"progress":3`, `"done"`} {
				got.message(want) // the client that is there gets it all
			}
			got.ends()
		})
	}
}

// A stream without a log has events without ids, and cannot be resumed.
func TestStreamWithoutLog(t *testing.T) {
	fails := func(int, []byte) bool { return true }
	s := serve(t, sharing{newServer(), &faultyStore{Store: newStore(t), fails: fails}}, &streamable.Options{Logger: quiet}).open(mcp.Version20251125)
	got := s.post(call(1, "steps", `{"a":2,"b":0}`))
	for _, want := range []string{`"progress":1`, `"progress":2`, `"done"`} {
		if event := got.message(want); event.ID != "" {
			t.Errorf("an event that is not stored has the id %s", event.ID)
		}
	}
	got.ends()
}

// An unknown Last-Event-ID opens the stream for unsolicited messages, unless the event may be one
// of a call, whose response would never come.
func TestUnknownLastEventID(t *testing.T) {
	for _, id := range []string{"7", "", "x-y", "other-3", "u" + strings.Repeat("0", 33) + "-4"} {
		srv := newServer()
		s := serve(t, srv, &streamable.Options{Logger: quiet}).open(mcp.Version20251125)
		got := s.with("Last-Event-ID", id).send(t.Context(), http.MethodGet, "")
		got.is(http.StatusOK)
		got.next() // the first event has no message
		server.AddTool(srv, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		got.message("tools/list_changed")
	}
	s := serve(t, newServer(), &streamable.Options{Logger: quiet}).open(mcp.Version20251125)
	s.with("Last-Event-ID", strings.Repeat("0", 33)+"-4").send(t.Context(), http.MethodGet, "").is(http.StatusBadRequest)
}

// A blocked store does not delay Close.
func TestCloseWithBlockedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryEndpoint(t, sharing{newServer(), &faultyStore{Store: newStore(t), hangs: true}}, &streamable.Options{Logger: quiet})
		id := d.open(t.Context())
		answered := d.async(t.Context(), http.MethodPost, id, call(1, "steps", `{"a":1,"b":0}`))
		synctest.Wait()
		start := time.Now()
		d.endpoint.Close()
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		<-answered
	})
}

// A call of the server without a stream fails immediately. Notifications are dropped.
func TestCallOfServerWithoutStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			if err := r.Progress(ctx, 1, 0, ""); err != nil {
				return "", err
			}
			select {
			case <-asked:
			case <-time.After(time.Second):
			}
			_, err := server.Elicit[struct {
				Name string `json:"name"`
			}](r, "who", "Who are you?")
			if err != nil && !errors.As(err, new(*mcp.InputRequired)) {
				return "no client", nil
			}
			return "a client", err
		})
		d := newMemoryEndpoint(t, srv, nil)
		id := d.open(t.Context())
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(call(1, "ask", `{}`)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Mcp-Session-Id", id)
		w := httptest.NewRecorder()
		start := time.Now()
		d.endpoint.ServeHTTP(w, r.WithContext(t.Context()))
		if took := time.Since(start); took > time.Minute || !strings.Contains(w.Body.String(), "no client") {
			t.Errorf("after %v: %s", took, w.Body)
		}
	})
}

// Each response for unsolicited messages begins with an event id.
func TestEmptyEventOnEachResponse(t *testing.T) {
	srv := newServer()
	s := serve(t, srv, nil).open(mcp.Version20251125)
	ctx, disconnect := context.WithCancel(t.Context())
	first := s.send(ctx, http.MethodGet, "").next()
	disconnect()
	again := s.send(t.Context(), http.MethodGet, "")
	server.AddTool(srv, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	if prime := again.next(); prime.ID != first.ID || len(prime.Data) > 0 {
		t.Errorf("the stream begins with %+v, want the id %s without data", prime, first.ID)
	}
	again.message("list_changed")
}

// Missing metadata is an error of the request.
func TestMissingMetadata(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/list", "")
	for _, meta := range []string{
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{}`,
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":5,"version":"1"}`,
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":5}`,
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"`,
	} {
		r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+meta+`}}}`).is(http.StatusBadRequest, "-32602", `"id":1`)
	}
	r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"nonsense",`+modernMeta+`}}`).is(http.StatusOK, "-32602")
}

// A deadline of middleware is not treated as a disconnected client.
func TestMiddlewareDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		d := newMemoryEndpoint(t, srv, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait",`+modernMeta+`}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		d.endpoint.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"id":1`) {
			t.Errorf("answered with %d %q", w.Code, w.Body)
		}
	})
}

// A session that was just used does not end although its timer fires.
func TestSessionUsedAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryEndpoint(t, newServer(), &streamable.Options{Limits: transport.Limits{SessionTTL: time.Minute}})
		var all sync.WaitGroup
		for range 300 {
			id := d.open(t.Context())
			d.wantStatus(id, http.StatusOK)
			all.Go(func() {
				<-time.After(time.Minute)
				if w := d.send(t.Context(), http.MethodPost, id, ping); w.Code != http.StatusOK {
					return // it was too late
				}
				<-time.After(time.Second)
				if w := d.send(t.Context(), http.MethodPost, id, ping); w.Code != http.StatusOK {
					t.Errorf("a session ended that was used a second ago")
				}
			})
		}
		all.Wait()
	})
}

// A stuckWriter blocks until it is released, or for an hour.
type stuckWriter struct {
	*httptest.ResponseRecorder
	release <-chan struct{}
}

func (w stuckWriter) Write(p []byte) (int, error) {
	select {
	case <-w.release:
	case <-time.After(time.Hour):
	}
	return w.ResponseRecorder.Write(p)
}

// A notification to a client that does not read ends with its context.
func TestBlockedNotificationEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
		server.AddTool(s, server.Tool{Name: "storm"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			defer close(release)
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			begun := time.Now()
			for i := range 1000 {
				if err := r.Progress(ctx, float64(i+1), 1000, strings.Repeat("x", 1<<10)); err != nil {
					if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 5*time.Second {
						t.Errorf("after %v: %v", time.Since(begun), err)
					}
					return "", nil
				}
			}
			t.Error("a megabyte was queued for a client that does not read")
			return "", nil
		})
		endpoint := streamable.Handler(s, nil)
		defer endpoint.Close()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"storm","arguments":{},`+modernMeta+`}}`))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "storm",
		} {
			req.Header.Set(name, value)
		}
		w := stuckWriter{httptest.NewRecorder(), release}
		endpoint.ServeHTTP(w, req)
		if !strings.Contains(w.Body.String(), `"progress":1,`) {
			t.Errorf("the client got %d: %.300s", w.Code, w.Body.String())
		}
	})
}

// Progress extends the timeout of a call over HTTP.
func TestProgressExtendsTheTimeout(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "slow", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "work"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for i := range 30 {
			select {
			case <-ticker.C:
				_ = r.Progress(ctx, float64(i+1), 30, "")
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return "done", nil
	})
	handler := streamable.Handler(s, nil)
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), streamable.Dial(web.URL, &streamable.DialOptions{
			Conn: jsonrpc.Options{CallTimeout: 400 * time.Millisecond},
		}), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if _, err := session.CallTool(t.Context(), "work", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}); err != nil {
			t.Errorf("%v: %v", era, err)
		}
		if _, err := session.CallTool(t.Context(), "work", nil, nil); err == nil {
			t.Errorf("%v: a call without progress does not end", era)
		}
	}
}

// A client that does not read delays its own call by the write timeout. A call of a
// session continues.
func TestLimitWriteTimeout(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			ended := make(chan error, 1)
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "flood"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				message := strings.Repeat("x", 64<<10)
				var err error
				for i := 0; i < 300 && err == nil; i++ { // more than sockets hold
					err = r.Progress(ctx, float64(i+1), 0, message)
				}
				ended <- err
				return "done", err
			})
			r := serve(t, srv, &streamable.Options{Limits: transport.Limits{WriteTimeout: 100 * time.Millisecond}, Logger: quiet})
			header, body := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: flood\r\n",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood",`+modernMeta+`}}`
			if era == "legacy" {
				header, body = "Mcp-Session-Id: "+r.open(mcp.Version20251125).headers["Mcp-Session-Id"]+"\r\n", call(1, "flood", `{}`)
			}
			conn := r.dialHTTP1()
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
			if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); !strings.Contains(line, "200") {
				t.Fatalf("%q, %v", line, err)
			}
			select {
			case err := <-ended:
				if (err != nil) != (era == "modern") {
					t.Errorf("the call ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the call did not return")
			}
		})
	}
}

const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`

// Streams of events count as subscriptions, and other calls do not.
func TestLimitSubscriptions(t *testing.T) {
	endpoint := serve(t, newServer(), &streamable.Options{Limits: transport.Limits{Subscriptions: 2}})
	r := endpoint.modern("subscriptions/listen", "")
	first := r.post(listen)
	first.message("notifications/subscriptions/acknowledged")
	r.post(listen).message("notifications/subscriptions/acknowledged")
	refused := r.post(listen).is(http.StatusServiceUnavailable)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	const stream = `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"x",` + modernMeta + `}}`
	endpoint.modern("events/stream", "").post(stream).is(http.StatusServiceUnavailable, `"code":429`)
	endpoint.modern("tools/call", "sum").post(sum(1, 2, 3)).is(http.StatusOK)
	r.endpoint.Close()
	first.message(`"result":{`)
	first.ends()
}

// A negative limit means no limit.
func TestNoLimits(t *testing.T) {
	r := serve(t, newServer(), &streamable.Options{Limits: transport.Limits{MessageBytes: -1, WriteTimeout: -1, Subscriptions: -1, Sessions: -1, SessionsPerPrincipal: -1, SessionTTL: -1}, KeepAlive: -1})
	r.modern("tools/call", "sum").post(sum(1, 2, 3)+strings.Repeat(" ", 4<<20)).is(http.StatusOK, `"5"`)
	s := r.open(mcp.Version20251125)
	s.send(t.Context(), http.MethodGet, "").next()
	s.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"5"`)
	r.modern("subscriptions/listen", "").post(listen).message("notifications/subscriptions/acknowledged")
}

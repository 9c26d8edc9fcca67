package streamable_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":7}`

type sumIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

// newServer returns the server of the tests.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "sum"}, func(_ context.Context, _ *server.Request, in sumIn) (string, error) {
		return fmt.Sprint(in.A + in.B), nil
	})
	server.AddTool(s, server.Tool{Name: "steps"}, func(ctx context.Context, r *server.Request, in sumIn) (string, error) {
		for i := range in.A {
			if err := r.Progress(ctx, float64(i+1), float64(in.A), ""); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	return s
}

func sum(id, a, b int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sum","arguments":{"a":%d,"b":%d},%s}}`, id, a, b, modernMeta)
}

func (r *rig) modern(method, name string) *rig {
	return r.with("MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

// A server that is shutting down says that it has not executed a call.
func TestModernCallDuringShutdown(t *testing.T) {
	s := newServer()
	r := serve(t, s, nil).modern("tools/call", "sum")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.post(sum(1, 2, 3)).is(http.StatusServiceUnavailable, `"id":1`, `"code":429`, "shutting down")
	if got.Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
}

func TestModernCallIsJSON(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/call", "sum")
	got := r.post(sum(1, 2, 3)).is(http.StatusOK, `"id":1`, `"text":"5"`, `"resultType":"complete"`)
	if got := got.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %s", got)
	}
}

func TestModernProgressPrecedesTheResult(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/call", "steps")
	got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"a":20,"b":0},` + modernMeta + `}}`)
	for i := range 20 {
		got.message(`"notifications/progress"`, fmt.Sprintf(`"progress":%d,`, i+1))
	}
	got.message(`"id":1`, `"text":"done"`)
	got.ends()
}

// The parts of requests; "" omits a header.
var (
	requestMethods  = []string{"POST", "POST", "POST", "GET", "DELETE", "OPTIONS", "PUT"}
	requestSessions = []string{"last", "last", "first", "", "nonsense", "last\nlast", "\x00"}
	requestVersions = []string{"", "2025-11-25", "2026-07-28", "2025-03-26", "v999", "2025-11-25\n2025-11-25"}
	requestAccepts  = []string{"", "application/json, text/event-stream", "application/json", "text/event-stream", "text/html", "*/*;q=0"}
	requestEvents   = []string{"", "", "last", "last-event-0", "x-1", "x-9223372036854775808", "-", "last\nlast"}
	requestExtras   = []string{"", "", "Host: evil.example.com", "Origin: https://evil.example.com", "Origin: null", "Content-Type: text/plain", "Content-Encoding: gzip", "Mcp-Name: =?base64?!?=", "Mcp-Method: tools/call\nMcp-Name: sum", "Mcp-Method: subscriptions/listen"}
	requestBodies   = []string{
		initialize(mcp.Version20251125), initialize(mcp.Version20250326), initialize("v999"), `{"jsonrpc":"2.0","id":0,"method":"initialize"}`,
		initialized, ping, call(1, "sum", `{"a":2,"b":3}`), call(1, "steps", `{"a":3,"b":0}`), call(2, "detach", `{}`), call(3, "ask", `{}`), call(4, "wait", `{}`), call(4, "nonsense", `[]`),
		cancelled(3), cancelled(4), `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":""}}`,
		`[` + call(5, "wait", `{}`) + `,` + call(6, "sum", `{"a":2,"b":3}`) + `]`, `[` + initialized + `]`, `[{"jsonrpc":"2.0","id":1,"result":{},"error":{}}]`, `[1,` + cancelled(5) + `]`, `[]`, `[[]]`,
		sum(1, 2, 3), listen, strings.ReplaceAll(listen, "2026-07-28", "v999"), `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait",` + modernMeta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`,
		``, `{`, `null`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "\xff", strings.Repeat("[", 2000), strings.Repeat(" ", 5000),
	}
)

// The documented statuses. Any other status is a failure.
var documented = []int{200, 202, 204, 400, 403, 404, 405, 406, 409, 413, 415, 503}

var eventID = regexp.MustCompile(`(?m)^id: (\S+)$`)

// A requester makes requests from random numbers.
type requester struct {
	*memoryEndpoint
	all sync.WaitGroup

	mu          sync.Mutex
	first, last string // session ids
	lastEvent   string
}

// request makes one request from seven numbers. The client disconnects after a while.
func (c *requester) request(n []byte) {
	pick := func(i int, from []string) string { return from[int(n[i])%len(from)] }
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	disconnect := time.AfterFunc(time.Minute, cancel)
	defer disconnect.Stop()
	r := httptest.NewRequestWithContext(ctx, pick(0, requestMethods), "http://localhost/mcp", strings.NewReader(pick(6, requestBodies)))
	r.Header.Set("Content-Type", "application/json")
	c.mu.Lock()
	known := strings.NewReplacer("last-event", strings.TrimSuffix(c.lastEvent, "-0"), "last", c.last, "first", c.first)
	event := strings.ReplaceAll(pick(4, requestEvents), "last", c.lastEvent)
	c.mu.Unlock()
	set := func(name, lines string) {
		if lines != "" {
			r.Header[http.CanonicalHeaderKey(name)] = strings.Split(lines, "\n")
		}
	}
	set("Mcp-Session-Id", known.Replace(pick(1, requestSessions)))
	set("Mcp-Protocol-Version", pick(2, requestVersions))
	set("Accept", pick(3, requestAccepts))
	set("Last-Event-ID", event)
	for line := range strings.SplitSeq(pick(5, requestExtras), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			set(name, value)
		}
	}
	w := httptest.NewRecorder()
	c.endpoint.ServeHTTP(w, r)
	if !slices.Contains(documented, w.Code) {
		c.Errorf("%s %v %q: %d %s", r.Method, r.Header, pick(6, requestBodies), w.Code, w.Body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := w.Header().Get("Mcp-Session-Id"); id != "" {
		if c.first == "" {
			c.first = id
		}
		c.last = id
	}
	if ids := eventID.FindAllStringSubmatch(w.Body.String(), -1); ids != nil {
		c.lastEvent = ids[0][1]
	}
}

// newFuzzServer returns a server whose tools end in various ways.
func newFuzzServer() *server.Server {
	s := newLegacyServer()
	server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(10 * time.Second):
				if err := r.Progress(ctx, float64(time.Now().Unix()), 0, ""); err != nil {
					return "", err
				}
			}
		}
	})
	return s
}

// For any sequence of requests, the endpoint answers with a documented status, serves
// valid requests and ends.
func FuzzRequests(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		program := []byte{byte(random.Uint32()), 0, 3, 0, 1, 0, 0, byte(random.Uint32() % 2)} // a session is opened
		for range 29 * 7 {
			program = append(program, byte(random.Uint32()))
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		opts := &streamable.Options{Limits: transport.Limits{MessageBytes: 4096, Sessions: 4, Subscriptions: 2}, Logger: quiet}
		synctest.Test(t, func(t *testing.T) {
			var shared store.Store
			if program[0]%2 == 1 {
				shared = newStore(t)
			}
			c := &requester{memoryEndpoint: newMemoryEndpoint(t, sharing{newFuzzServer(), shared}, opts)}
			steps := slices.Collect(slices.Chunk(program[1:min(len(program), 1+30*7)], 7))
			for _, step := range steps {
				if len(step) < 7 {
					break
				}
				c.all.Go(func() { c.request(step) })
				if step[1] >= 240 {
					<-time.After(transport.Limits{}.WithDefaults().SessionTTL)
				}
				if step[0] < 128 {
					synctest.Wait() // unanswered requests continue
				}
			}
			modern := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(sum(1, 2, 3)))
			for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "sum"} {
				modern.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			c.endpoint.ServeHTTP(w, modern)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"5"`) {
				t.Errorf("a good call is answered with %d %s", w.Code, w.Body)
			}
			c.all.Wait()
			<-time.After(transport.Limits{}.WithDefaults().SessionTTL + time.Hour)
			c.wantStatus(c.open(t.Context()), http.StatusOK) // all sessions were released
		})
	})
}

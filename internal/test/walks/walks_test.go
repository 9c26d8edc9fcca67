package walks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	receiving "github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// maxSteps is the maximum length of a walk.
const maxSteps = 12

// A trail is the stacks of the goroutines that worked for a call, in the order of their marks.
type trail struct {
	mu     sync.Mutex
	stacks [][]string // of names of functions, the outermost first
}

// mark adds the stack of the caller.
func (t *trail) mark() {
	callers := make([]uintptr, 200)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	var stack []string
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		stack = append(stack, path.Base(frame.Function))
	}
	slices.Reverse(stack)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stacks = append(t.stacks, stack)
}

// follow returns the first of the steps that does not follow those before it, or "". A step follows another one in the
// same stack, or in one that was marked later.
func (t *trail) follow(steps []string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.stacks
	for _, step := range steps {
		for len(rest) > 0 && !slices.Contains(rest[0], step) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return step
		}
		at := slices.Index(rest[0], step)
		rest = slices.Insert(slices.Clone(rest[1:]), 0, rest[0][at+1:])
	}
	return ""
}

// A markedWriter marks each write.
type markedWriter struct {
	http.ResponseWriter
	trail *trail
}

func (w markedWriter) Write(data []byte) (int, error) {
	w.trail.mark()
	return w.ResponseWriter.Write(data)
}

func (w markedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serve serves a handler over HTTP. It returns its URL.
func (t *trail) serve(tb testing.TB, handler http.Handler) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(markedWriter{w, t}, r)
	}))
	tb.Cleanup(web.Close)
	return web.URL
}

// A markedTransport marks each request.
type markedTransport struct{ trail *trail }

func (m markedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	m.trail.mark()
	return http.DefaultTransport.RoundTrip(r)
}

// A markedStore marks what becomes a task or an event, and the end of a job.
type markedStore struct {
	store.Store
	trail *trail
}

func (s markedStore) Push(ctx context.Context, queue, id string, data []byte) error {
	s.trail.mark()
	return s.Store.Push(ctx, queue, id, data)
}

func (s markedStore) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	s.trail.mark()
	return s.Store.Append(ctx, stream, data)
}

func (s markedStore) Ack(ctx context.Context, job *store.Job) error {
	s.trail.mark()
	return s.Store.Ack(ctx, job)
}

// A markedPipe marks each write to it.
type markedPipe struct {
	io.Writer
	trail *trail
}

func (p markedPipe) Write(data []byte) (int, error) {
	p.trail.mark()
	return p.Writer.Write(data)
}

type dish struct{ Name string }

// kitchen returns a server with a tool.
func (t *trail) kitchen(opts *server.Options, guards ...mcp.Guard) *server.Server {
	s := server.New(mcp.Implementation{Name: "kitchen", Version: "1"}, opts)
	server.AddTool(s, server.Tool{Name: "cook", Guards: guards}, func(context.Context, *server.Request, dish) (string, error) {
		t.mark()
		return "served", nil
	})
	return s
}

// cook calls the tool.
func cook(tb testing.TB, dialer transport.Dialer, name string, opts *client.Options) {
	session, err := client.Connect(tb.Context(), dialer, opts)
	if err != nil {
		tb.Fatal(err)
	}
	defer session.Close()
	text, err := client.CallAs[string](tb.Context(), session, name, dish{"soup"}, nil)
	if err != nil || text != "served" {
		tb.Errorf("the call gives %q, %v", text, err)
	}
}

func typedCall(tb testing.TB, t *trail) {
	endpoint := streamable.Handler(t.kitchen(nil), nil)
	cook(tb, streamable.Dial(t.serve(tb, endpoint), nil), "cook", nil)
}

// legacyMessages are the messages of a client of 2025-11-25.
var legacyMessages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"guest","version":"1"}}}`,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"cook","arguments":{"Name":"soup"}}}`,
}

func legacyCall(tb testing.TB, t *trail) {
	in, requests := io.Pipe()
	responses, out := io.Pipe()
	ctx, stop := context.WithCancel(tb.Context())
	defer stop()
	received := func(_ string, sent bool, _ []byte) {
		if !sent {
			t.mark()
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		opts := &stdio.ServeOptions{In: in, Out: markedPipe{out, t}, Conn: jsonrpc.Options{Trace: received}}
		if err := stdio.Serve(ctx, t.kitchen(nil), opts); err != nil {
			tb.Error(err)
		}
	})
	lines := bufio.NewScanner(responses)
	for _, message := range legacyMessages {
		if _, err := io.WriteString(requests, message+"\n"); err != nil {
			tb.Fatal(err)
		}
		if strings.Contains(message, `"id"`) && !lines.Scan() {
			tb.Fatal("no response")
		}
	}
	if !strings.Contains(lines.Text(), "served") {
		tb.Errorf("the call gives %s", lines.Text())
	}
	stop()
	serving.Wait()
}

func proxiedCall(tb testing.TB, t *trail) {
	upstream := t.serve(tb, streamable.Handler(t.kitchen(nil), nil))
	b, err := bridge.New(nil, bridge.Config{Alias: "kitchen", Required: true, Dialer: streamable.Dial(upstream, &streamable.DialOptions{
		HTTPClient: &http.Client{Transport: markedTransport{t}},
	})})
	if err != nil {
		tb.Fatal(err)
	}
	face := server.New(mcp.Implementation{Name: "face", Version: "1"}, nil)
	if err := face.Mount(b, nil); err != nil {
		tb.Fatal(err)
	}
	defer shutDown(tb, face)
	cook(tb, transport.Pipe(face), "kitchen__cook", nil)
}

func shutDown(tb testing.TB, s *server.Server) {
	if err := s.Shutdown(context.WithoutCancel(tb.Context())); err != nil {
		tb.Error(err)
	}
}

func approvedTask(tb testing.TB, t *trail) {
	rules, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
	if err != nil {
		tb.Fatal(err)
	}
	person := approval.Callback(func(ctx context.Context, p *approval.Prompt) {
		t.mark()
		if err := p.Accept(ctx); err != nil {
			tb.Error(err)
		}
	})
	s := t.kitchen(&server.Options{Store: t.store(tb)}, approval.Guard(rules, person, nil))
	defer shutDown(tb, s)
	cook(tb, transport.Pipe(s), "cook", nil)
}

// store returns a store in memory.
func (t *trail) store(tb testing.TB) store.Store {
	memory, err := store.NewMemory(nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := memory.Close(); err != nil {
			tb.Error(err)
		}
	})
	return markedStore{memory, t}
}

func eventToWebhook(tb testing.TB, t *trail) {
	shared := t.store(tb)
	hooks, err := webhook.New(&webhook.Options{Store: shared, Keys: [][]byte{make([]byte, 32)}, AllowLoopback: true})
	if err != nil {
		tb.Fatal(err)
	}
	s := t.kitchen(&server.Options{Store: shared, Webhooks: hooks})
	served := server.AddEvent(s, server.Event{Name: "dish.served"}, func(_ *mcp.Caller, _ struct{}, d dish) (dish, bool) { return d, true })
	defer shutDown(tb, s)
	receiver, err := receiving.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	endpoint := streamable.Handler(s, nil)
	session, err := client.Connect(tb.Context(), streamable.Dial(t.serve(tb, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), "ann")))
	})), nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer session.Close()
	delivered := make(chan struct{})
	hook, err := receiving.Subscribe(tb.Context(), session, receiver, t.serve(tb, receiver), "dish.served", nil, func(context.Context, receiving.Delivery) error {
		t.mark()
		close(delivered)
		return nil
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := hook.Close(tb.Context()); err != nil {
			tb.Error(err)
		}
	}()
	// Before the job of the subscription has ended, it would deliver the event itself.
	waittest.Until(tb, "the job of the subscription", func() bool { return t.follow([]string{"walks.markedStore.Ack"}) == "" })
	if err := served.Publish(tb.Context(), dish{"soup"}, nil); err != nil {
		tb.Fatal(err)
	}
	waittest.Receive(tb, "the delivery", delivered)
}

func clientCall(tb testing.TB, t *trail) {
	endpoint := streamable.Handler(t.kitchen(nil), nil)
	cook(tb, streamable.Dial(t.serve(tb, endpoint), &streamable.DialOptions{HTTPClient: &http.Client{Transport: markedTransport{t}}}), "cook", nil)
}

// step matches the first word of a line of a walk, which is a function.
var step = regexp.MustCompile(`(?m)^[a-z]\S+`)

// Each function of a walk in docs/architecture.md is called, in that order.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for heading, call := range map[string]func(testing.TB, *trail){
		"A typed call over HTTP":               typedCall,
		"A call of an older client over stdio": legacyCall,
		"A proxied call":                       proxiedCall,
		"An approved call as a task":           approvedTask,
		"An event to a webhook":                eventToWebhook,
		"A call of a client":                   clientCall,
	} {
		t.Run(heading, func(t *testing.T) {
			_, section, _ := strings.Cut(string(page), "\n### "+heading+"\n")
			_, walk, _ := strings.Cut(section, "```text\n")
			walk, _, found := strings.Cut(walk, "```")
			steps := step.FindAllString(walk, -1)
			if !found || len(steps) == 0 || len(steps) > maxSteps {
				t.Fatalf("the walk has %d steps, want 1 to %d", len(steps), maxSteps)
			}
			var walked trail
			call(t, &walked)
			if missing := walked.follow(steps); missing != "" {
				t.Errorf("%s does not follow. The stacks are\n%s", missing, &walked)
			}
		})
	}
}

func (t *trail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	for _, stack := range t.stacks {
		fmt.Fprintln(&text, strings.Join(stack, "\n"))
		fmt.Fprintln(&text)
	}
	return text.String()
}

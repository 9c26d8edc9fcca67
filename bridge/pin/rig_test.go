package pin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The documented limits of the package.
const (
	maxDefinition = 1 << 20
	maxName       = 256
	maxPins       = 16_384
	maxTrusted    = 4096
	maxFile       = 64 << 20
)

// diff returns the differences between two definitions of a tool.
func diff(before, after json.RawMessage) ([]pin.Difference, error) {
	return (&pin.Pending{Entry: toolNamed("x"), Before: before, After: after}).Diff()
}

// A fakeProvider is a provider whose tools change.
type fakeProvider struct {
	catalog atomic.Pointer[server.Catalog]
	changed atomic.Pointer[func(mcp.Change)]
	calls   atomic.Int64
}

func newFake(tools ...string) *fakeProvider {
	s := &fakeProvider{}
	s.show(tools...)
	return s
}

// answer counts a call. It does not allocate, for TestCallBudget.
func (s *fakeProvider) answer(context.Context, *mcp.Call) (mcp.Result, error) {
	s.calls.Add(1)
	return emptyResult, nil
}

var emptyResult mcp.Result = mcp.Raw(`{"content":[]}`)

// catalogOf returns a catalog of tools, by their definitions.
func (s *fakeProvider) catalogOf(tools ...string) *server.Catalog {
	var entries []*server.Entry
	for _, tool := range tools {
		entries = append(entries, s.entry(mcp.KindTool, nameOf(tool), tool))
	}
	return server.NewCatalog(entries, nil)
}

func (s *fakeProvider) entry(kind mcp.Kind, name, definition string) *server.Entry {
	return &server.Entry{
		Target: mcp.Target{Kind: kind, Name: name, Definition: mcp.NewDefinition(json.RawMessage(definition))},
		Handle: s.answer,
	}
}

// nameOf returns the name in the definition of a tool.
func nameOf(tool string) string {
	var named struct{ Name string }
	if err := json.Unmarshal([]byte(tool), &named); err != nil {
		panic(err)
	}
	return named.Name
}

// show replaces the tools.
func (s *fakeProvider) show(tools ...string) {
	s.catalog.Store(s.catalogOf(tools...))
	if changed := s.changed.Load(); changed != nil {
		(*changed)(mcp.Change{Kind: mcp.KindTool})
	}
}

func (s *fakeProvider) Catalog() *server.Catalog { return s.catalog.Load() }

func (s *fakeProvider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	s.changed.Store(&changed)
	ready()
	<-ctx.Done()
	return ctx.Err()
}

// tool returns a definition.
func tool(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newCall(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, nil, nil)
	return &call
}

// serverOf returns a server with a provider mounted, which it does not run.
func serverOf(t testing.TB, p server.Provider) *server.Server {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "frontend"}, &server.Options{Logger: quiet()})
	if err := s.Mount(stopped{p}, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// stopped is a provider that a server does not run.
type stopped struct{ server.Provider }

func (stopped) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

// callTool calls a tool by its name in JSON.
func callTool(t testing.TB, s *server.Server, quoted string) error {
	t.Helper()
	_, err := s.Serve(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":`+quoted+`,"arguments":{}}`))
	return err
}

// wantTools checks which tools are listed and can be called, and which are pending.
func wantTools(t testing.TB, p *pin.Provider, lock *pin.Lock, listed string, pending ...string) {
	t.Helper()
	var names []string
	s := serverOf(t, p)
	for e := range p.Catalog().All(mcp.KindTool) {
		names = append(names, e.Name)
		if err := callTool(t, s, fmt.Sprintf("%q", e.Name)); err != nil {
			t.Errorf("%s is listed, and calling it fails: %v", e.Name, err)
		}
	}
	if got := strings.Join(names, " "); got != listed {
		t.Errorf("listed are %q, want %q", got, listed)
	}
	var got []string
	for _, w := range lock.Pending() {
		got = append(got, w.Server+" "+w.Name+" "+w.Reason)
		if err := callTool(t, s, fmt.Sprintf("%q", w.Name)); err == nil && !slices.Contains(names, w.Name) {
			t.Errorf("%s is not listed, but can be called", w.Name)
		}
	}
	if !slices.Equal(got, pending) {
		t.Errorf("pending are %q, want %q", got, pending)
	}
}

func digest(t testing.TB, tool string) string {
	t.Helper()
	d, err := pin.Digest(pin.Tool, json.RawMessage(tool))
	if err != nil {
		t.Fatalf("%.200s: %v", tool, err)
	}
	return d
}

// pinAll pins tools by their definitions.
func pinAll(t testing.TB, lock *pin.Lock, alias string, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if err := lock.Pin(alias, toolNamed(nameOf(tool)), digest(t, tool)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMain(m *testing.M) { leaktest.Main(m) }

// toolNamed identifies a tool.
func toolNamed(name string) pin.Entry { return pin.Entry{Kind: pin.Tool, Name: name} }

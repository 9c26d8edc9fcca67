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
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A shop is a provider whose tools change.
type shop struct {
	offer   atomic.Pointer[server.Catalog]
	changed atomic.Pointer[func(mcp.Change)]
	calls   atomic.Int64
}

func newShop(tools ...string) *shop {
	s := &shop{}
	s.show(tools...)
	return s
}

// answer counts a call. Its result is made once: what a call allocates is counted.
func (s *shop) answer(context.Context, *mcp.Call) (mcp.Result, error) {
	s.calls.Add(1)
	return emptyResult, nil
}

var emptyResult mcp.Result = mcp.Raw(`{"content":[]}`)

// catalogue has tools, each a definition with a name, and a prompt with completions.
func (s *shop) catalogue(tools ...string) *server.Catalog {
	var entries []*server.Entry
	for _, tool := range tools {
		entries = append(entries, s.entry(mcp.KindTool, nameOf(tool), tool))
	}
	prompt := s.entry(mcp.KindPrompt, "p", `{"name":"p"}`)
	prompt.Complete = s.answer
	return server.NewCatalog(append(entries, prompt), nil)
}

func (s *shop) entry(kind mcp.Kind, name, definition string) *server.Entry {
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

// show offers other tools from now on.
func (s *shop) show(tools ...string) {
	s.offer.Store(s.catalogue(tools...))
	if changed := s.changed.Load(); changed != nil {
		(*changed)(mcp.Change{Kind: mcp.KindTool})
	}
}

func (s *shop) Catalog() *server.Catalog { return s.offer.Load() }

func (s *shop) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	s.changed.Store(&changed)
	ready()
	<-ctx.Done()
	return ctx.Err()
}

// tool is a definition.
func tool(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newCall(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	request := &jsonrpc.Request{}
	if err := request.Init(jsonrpc.IntID(1), method, json.RawMessage(params)); err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, nil, nil)
	return &call
}

// faceOf returns a server of what a provider offers. It does not run the provider.
func faceOf(t testing.TB, p server.Provider) *server.Server {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "face"}, &server.Options{Logger: quiet()})
	if err := s.Mount(still{p}, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// still is a provider that a server does not run.
type still struct{ server.Provider }

func (still) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

// callTool calls a tool. Its name is quoted as in JSON.
func callTool(t testing.TB, s *server.Server, quoted string) error {
	t.Helper()
	_, err := s.Serve(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":`+quoted+`,"arguments":{}}`))
	return err
}

// wantTools checks what is listed, that just this can be called, and what is pending.
func wantTools(t testing.TB, p *pin.Provider, lock *pin.Lock, listed string, pending ...string) {
	t.Helper()
	var names []string
	face := faceOf(t, p)
	for e := range p.Catalog().All(mcp.KindTool) {
		names = append(names, e.Name)
		if err := callTool(t, face, fmt.Sprintf("%q", e.Name)); err != nil {
			t.Errorf("%s is listed, and calling it fails: %v", e.Name, err)
		}
	}
	if got := strings.Join(names, " "); got != listed {
		t.Errorf("listed are %q, want %q", got, listed)
	}
	var waiting []string
	for _, w := range lock.Pending() {
		waiting = append(waiting, w.Server+" "+w.Tool+" "+w.Reason.String())
		if err := p.Check(w.Tool); err == nil && !slices.Contains(names, w.Tool) {
			t.Errorf("%s is not listed, but can be called", w.Tool)
		}
	}
	if !slices.Equal(waiting, pending) {
		t.Errorf("pending are %q, want %q", waiting, pending)
	}
}

func digest(t testing.TB, tool string) string {
	t.Helper()
	d, err := pin.Digest(json.RawMessage(tool))
	if err != nil {
		t.Fatalf("%.200s: %v", tool, err)
	}
	return d
}

// pinAll pins tools as they are.
func pinAll(t testing.TB, lock *pin.Lock, alias string, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if err := lock.Pin(alias, nameOf(tool), digest(t, tool)); err != nil {
			t.Fatal(err)
		}
	}
}

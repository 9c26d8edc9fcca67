package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// The documented limits of the package.
const (
	defaultLimit = 5
	maxTools     = 10_000
)

// A source is a provider whose entries change. By default it replies to calls with their params.
type source struct {
	catalog atomic.Pointer[server.Catalog]
	changed atomic.Pointer[func(mcp.Change)]
	answer  mcp.Handler // nil: see call

	mu    sync.Mutex
	steps []string
}

func newSource(tools ...string) *source {
	s := &source{}
	s.show(s.tools(tools...)...)
	return s
}

// show replaces the entries.
func (s *source) show(entries ...*server.Entry) { s.catalog.Store(server.NewCatalog(entries, nil)) }

// tools returns entries for names or JSON definitions.
func (s *source) tools(tools ...string) []*server.Entry {
	var entries []*server.Entry
	for _, tool := range tools {
		if tool[0] != '{' {
			tool = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, tool)
		}
		var named struct{ Name string }
		if err := json.Unmarshal([]byte(tool), &named); err != nil {
			panic(err)
		}
		entries = append(entries, s.entry(mcp.KindTool, named.Name, tool))
	}
	return entries
}

func (s *source) entry(kind mcp.Kind, name, definition string) *server.Entry {
	return &server.Entry{
		Target: mcp.Target{Kind: kind, Name: name, Definition: mcp.NewDefinition(json.RawMessage(definition))},
		Handle: s.call,
	}
}

func (s *source) Catalog() *server.Catalog { return s.catalog.Load() }

func (s *source) call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if s.answer != nil {
		return s.answer(ctx, call)
	}
	switch call.Method() {
	case mcp.MethodToolsCall:
		return text(string(call.Params())), nil
	case mcp.MethodPromptsGet:
		return mcp.Raw(`{"messages":[]}`), nil
	case mcp.MethodResourcesRead:
		return mcp.Raw(`{"contents":[]}`), nil
	}
	return mcp.Raw(`{"completion":{"values":["ada"]}}`), nil
}

func (s *source) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	s.changed.Store(&changed)
	s.step("run")
	ready()
	<-ctx.Done()
	s.step("end")
	return ctx.Err()
}

func (s *source) watch(_ context.Context, call *mcp.Call) (func(), error) {
	s.step("watch " + call.URI())
	return func() { s.step("unwatch " + call.URI()) }, nil
}

func (s *source) step(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

// taken returns the steps since the last call.
func (s *source) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := strings.Join(s.steps, ", ")
	s.steps = nil
	return steps
}

func text(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}
}

// newProvider returns a provider for a source without faults.
func newProvider(t testing.TB, p server.Provider, guards ...mcp.Guard) server.Provider {
	t.Helper()
	provider, err := search.New(p, &search.Options{Guards: guards, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// newServer returns a server with a provider for the source.
func newServer(t testing.TB, p server.Provider, guards ...mcp.Guard) *server.Server {
	t.Helper()
	return mounted(t, newProvider(t, p, guards...), "", nil)
}

func mounted(t testing.TB, p server.Provider, prefix string, opts *server.Options) *server.Server {
	t.Helper()
	if opts == nil {
		opts = &server.Options{}
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "search", Version: "1"}, opts)
	if err := s.Mount(p, &server.MountOptions{Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t testing.TB, s *server.Server, opts *client.Options) *client.Session {
	t.Helper()
	return connectBy(t, transporttests.Dialer(t, s), opts)
}

func connectBy(t testing.TB, dialer transport.Dialer, opts *client.Options) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func eachEra(t *testing.T, run func(t *testing.T, era client.Era)) {
	if transporttests.CarriesModern() {
		t.Run("modern", func(t *testing.T) { run(t, client.Modern) })
	}
	t.Run("legacy", func(t *testing.T) { run(t, client.Legacy) })
}

// virtualEras is eachEra in virtual time.
func virtualEras(t *testing.T, run func(t *testing.T, era client.Era)) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) { run(t, era) })
	})
}

// call calls a tool with arguments as JSON.
func call(t testing.TB, session *client.Session, tool, arguments string) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), tool, json.RawMessage(arguments), nil)
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, arguments, err)
	}
	return result
}

// callInner calls a tool with CallTool.
func callInner(t testing.TB, session *client.Session, tool, arguments string) (*mcp.CallToolResult, error) {
	t.Helper()
	return session.CallTool(t.Context(), search.CallTool, json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)), nil)
}

func texts(result *mcp.CallToolResult) string {
	var texts []string
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// found searches and returns the definitions.
func found(t testing.TB, session *client.Session, arguments string) []json.RawMessage {
	t.Helper()
	result := call(t, session, search.SearchTool, arguments)
	var content struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(result.StructuredContent, &content); err != nil || result.IsError || content.Tools == nil {
		t.Fatalf("%s: the result is %s: %v", arguments, texts(result), err)
	}
	if texts(result) != string(result.StructuredContent) {
		t.Errorf("%s: the text is %s, the content %s", arguments, texts(result), result.StructuredContent)
	}
	return content.Tools
}

// foundNames searches and returns the names, separated by spaces.
func foundNames(t testing.TB, session *client.Session, query string) string {
	t.Helper()
	quoted, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	return namesOf(t, found(t, session, string(quoted)))
}

func namesOf(t testing.TB, entries []json.RawMessage) string {
	t.Helper()
	var names []string
	for _, entry := range entries {
		var tool mcp.Tool
		if err := json.Unmarshal(entry, &tool); err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

func protocolError(t testing.TB, err error) jsonrpc.Error {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	return *e
}

func TestMain(m *testing.M) { transporttests.Main(m) }

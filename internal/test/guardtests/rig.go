package guardtests

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// quiet returns a logger that discards everything.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newServer(opts *server.Options) *server.Server {
	return server.New(mcp.Implementation{Name: "test", Version: "1"}, opts)
}

// nothing is the function of a tool without arguments and text.
func nothing(context.Context, *server.Request, struct{}) (string, error) { return "", nil }

// sure is the answer to a question.
type sure struct {
	Sure bool `json:"sure"`
}

func allow(context.Context, *mcp.Call) error { return nil }

// refuse is a guard whose Check refuses everything.
func refuse(name string) mcp.Guard {
	return mcp.Guard{Name: name, Check: func(context.Context, *mcp.Call) error { return errors.New("the secret reason") }}
}

// toolNames returns the names of the tools that a caller can see.
func toolNames(t testing.TB, session *client.Session) []string {
	t.Helper()
	names, _ := Listed(t, session, mcp.MethodToolsList, "tools", "name")
	return names
}

// protocolError returns the error of a call, which must be one of the protocol.
func protocolError(t testing.TB, err error) *jsonrpc.Error {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Fatalf("the error is %v (%T)", err, err)
	}
	return e
}

// Shop returns a server with one entry of each kind for each name.
func Shop(t testing.TB, opts *server.Options, names ...string) *server.Server {
	t.Helper()
	opts.Logger = quiet()
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, opts)
	var entries []*server.Entry
	for _, name := range names {
		add := func(kind mcp.Kind, name, member string) {
			definition := mcp.NewDefinition(json.RawMessage(`{ "` + member + `" : "` + name + `", "inputSchema":{"type":"object"},"x-new":[1, 2]}`))
			e := &server.Entry{Target: mcp.Target{Kind: kind, Name: name, Definition: definition}, Handle: answer}
			if kind == mcp.KindPrompt || kind == mcp.KindResourceTemplate {
				e.Complete = answer
			}
			entries = append(entries, e)
		}
		add(mcp.KindTool, name, "name")
		add(mcp.KindPrompt, name, "name")
		add(mcp.KindResource, "app:"+name, "uri")
		add(mcp.KindResourceTemplate, "app:"+name+"/{x}", "uriTemplate")
	}
	if err := s.Mount(&provider{server.NewCatalog(entries, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

// answer returns an empty result for any call.
func answer(_ context.Context, call *mcp.Call) (mcp.Result, error) {
	return map[string]mcp.Raw{
		mcp.MethodToolsCall: mcp.Raw(`{"content":[]}`), mcp.MethodPromptsGet: mcp.Raw(`{"messages":[]}`),
		mcp.MethodResourcesRead: mcp.Raw(`{"contents":[]}`), mcp.MethodComplete: mcp.Raw(`{"completion":{"values":[]}}`),
	}[call.Method()], nil
}

// A provider has a fixed catalog.
type provider struct{ catalog *server.Catalog }

func (p *provider) Catalog() *server.Catalog { return p.catalog }

func (p *provider) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// kinds says how each kind is listed and called.
var kinds = []struct {
	list, member, name string
	call, params       string // the call by name
}{
	{mcp.MethodToolsList, "tools", "name", mcp.MethodToolsCall, `{"name":%q}`},
	{mcp.MethodPromptsList, "prompts", "name", mcp.MethodPromptsGet, `{"name":%q}`},
	{mcp.MethodPromptsList, "prompts", "name", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"x","value":""}}`},
	{mcp.MethodResourcesList, "resources", "uri", mcp.MethodResourcesRead, `{"uri":%q}`},
	{mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}}`},
}

// Refusal returns the error of a call, or a *client.ToolError for a result with isError.
func Refusal(result *mcp.CallToolResult, err error) error {
	if err == nil && result.IsError {
		return &client.ToolError{Result: result}
	}
	return err
}

// called makes a call of any method, and returns its error or refusal.
func called(t testing.TB, session *client.Session, method, params string) error {
	t.Helper()
	text, err := session.Call(t.Context(), method, json.RawMessage(params), nil)
	if err != nil || method != mcp.MethodToolsCall {
		return err
	}
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return Refusal(&result, nil)
}

// repeats is the end of the text of a refused tool call.
const repeats = "\nThe tool was not called. Do not repeat the call: it would be refused again."

// Listed returns the names in a list, and the text of the list.
func Listed(t testing.TB, session *client.Session, method, member, name string) (names []string, text string) {
	t.Helper()
	result, err := session.Call(t.Context(), method, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		t.Fatal(err)
	}
	var entries []map[string]any
	if err := json.Unmarshal(members[member], &entries); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	for _, entry := range entries {
		names = append(names, entry[name].(string))
	}
	return names, string(result)
}

package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport"
)

// An echo is a request as the echo service returns it.
type echo struct {
	Method  string      `json:"method"`
	Path    string      `json:"path"` // not decoded
	Query   string      `json:"query"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

// serveEcho returns the request as JSON.
func serveEcho(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	path, query, _ := strings.Cut(r.RequestURI, "?")
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(echo{r.Method, path, query, r.Header, string(body)})
}

// serve starts an HTTP server and returns its URL.
func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	service := httptest.NewServer(handler)
	t.Cleanup(func() {
		service.CloseClientConnections()
		service.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return service.URL
}

// document returns a complete document. paths may contain other members of the root.
func document(version, paths string) []byte {
	return fmt.Appendf(nil, "openapi: %s\ninfo: {title: Test, version: '1'}\n%s", version, paths)
}

// provide returns the provider of a document.
func provide(t testing.TB, text []byte, opts openapi.Options) *openapi.Provider {
	t.Helper()
	if opts.BaseURL == "" {
		opts.BaseURL = "https://service.example"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	p, err := openapi.New(text, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// echoOperation provides an operation "call" of the echo service. members are the members of the
// operation, in the flow style of YAML.
func echoOperation(t testing.TB, method, path, members string) *openapi.Provider {
	t.Helper()
	text := fmt.Sprintf("paths: {%q: {%s: {operationId: call, %s}}}", path, method, members)
	return provide(t, document("3.0.3", text), openapi.Options{BaseURL: serve(t, serveEcho), HeaderParameters: true})
}

// request returns a call of a client.
func request(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	r, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(r, &mcp.Caller{Principal: "ada"}, nil)
	return &call
}

// handle serves a call by a server with the provider.
func handle(ctx context.Context, t testing.TB, p *openapi.Provider, call *mcp.Call) (mcp.Result, error) {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Mount(p, nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	return s.Serve(ctx, call)
}

// tryCall calls a tool.
func tryCall(t testing.TB, p *openapi.Provider, tool, arguments string) (*mcp.CallToolResult, error) {
	t.Helper()
	return tryCallIn(t.Context(), t, p, tool, arguments)
}

func tryCallIn(ctx context.Context, t testing.TB, p *openapi.Provider, tool, arguments string) (*mcp.CallToolResult, error) {
	t.Helper()
	result, err := handle(ctx, t, p, request(t, mcp.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)))
	if err != nil {
		return nil, err
	}
	encoded, err := result.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	decoded := new(mcp.CallToolResult)
	if err := decoded.UnmarshalJSON(encoded); err != nil {
		t.Fatal(err)
	}
	return decoded, nil
}

func call(t testing.TB, p *openapi.Provider, tool, arguments string) *mcp.CallToolResult {
	t.Helper()
	result, err := tryCall(t, p, tool, arguments)
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, arguments, err)
	}
	return result
}

// echoed calls a tool of the echo service.
func echoed(t testing.TB, p *openapi.Provider, tool, arguments string) echo {
	t.Helper()
	result := call(t, p, tool, arguments)
	var got echo
	if err := json.Unmarshal(result.StructuredContent, &got); err != nil || result.IsError {
		t.Fatalf("%s(%s): %s", tool, arguments, texts(result))
	}
	return got
}

// callError calls a tool that must fail and returns the text of the error result.
func callError(t testing.TB, p *openapi.Provider, tool, arguments string) string {
	t.Helper()
	result := call(t, p, tool, arguments)
	if !result.IsError {
		t.Fatalf("%s(%s) succeeded: %s", tool, arguments, texts(result))
	}
	return texts(result)
}

func texts(result *mcp.CallToolResult) string {
	var all []string
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// tool returns a tool by name.
func tool(t testing.TB, p *openapi.Provider, name string) *mcp.Tool {
	t.Helper()
	listed := p.Catalog().Lookup(mcp.KindTool, name)
	if listed == nil {
		t.Fatalf("tool %q is not in %q", name, toolNames(p))
	}
	tool := new(mcp.Tool)
	if err := tool.UnmarshalJSON(listed.Definition.JSON()); err != nil {
		t.Fatal(err)
	}
	return tool
}

func toolNames(p *openapi.Provider) []string {
	var names []string
	for listed := range p.Catalog().All(mcp.KindTool) {
		names = append(names, listed.Name)
	}
	return names
}

// wantContains checks that a text contains all parts.
func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// problems returns the error of New for a document.
func problems(t testing.TB, text []byte, opts openapi.Options) string {
	t.Helper()
	if opts.BaseURL == "" {
		opts.BaseURL = "https://service.example"
	}
	_, err := openapi.New(text, &opts)
	if err == nil {
		t.Fatal("the document was accepted")
	}
	return err.Error()
}

func TestMain(m *testing.M) { leaktest.Main(m) }

// callForecast prints the names of a server's tools, and the request that a call of getForecast makes.
func callForecast(s *server.Server, city string, days int) {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tool.Name, " ")
	}
	request, err := client.CallAs[echo](ctx, session, "getForecast", map[string]any{"city": city, "days": days}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(request.Path, request.Query)
}

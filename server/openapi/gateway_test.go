package openapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport"
)

// book is a schema with internal references, and with data that looks like references.
const book = `{"type":"object","required":["title"],"additionalProperties":false,` +
	`"properties":{"title":{"type":"string","description":"of the \u201cbook\u201d"},"author":{"$ref":"#/$defs/person"},` +
	`"default":{"$ref":"#/$defs/person"},"size":{"type":"integer","default":1}},` +
	`"$defs":{"person":{"type":"object","properties":{"name":{"type":"string"},"friend":{"$ref":"#/$defs/person"}}}}}`

// note is a schema without references.
const note = `{"type":"object","required":["text"],"additionalProperties":false,` +
	`"properties":{"text":{"type":"string","minLength":1},"lines":{"type":"array","items":{"type":"integer"}}}}`

// A gatewayRig is a gateway in front of a server whose tools have all kinds of schemas.
type gatewayRig struct {
	bridge     *bridge.Bridge
	url, token string
}

func newGateway(t *testing.T) *gatewayRig {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	library := server.New(mcp.Implementation{Name: "library", Version: "1"}, &server.Options{Logger: quiet})
	echo := func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("a book")}, StructuredContent: arguments}, nil
	}
	fixed := func(result string) func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
			return mcp.Raw(result), nil
		}
	}
	open := json.RawMessage(`{"type":"object"}`)
	server.AddRawTool(library, server.Tool{Name: "add", Title: "Add", Description: "Adds a \"book\".", InputSchema: json.RawMessage(book), OutputSchema: json.RawMessage(book)}, echo)
	server.AddRawTool(library, server.Tool{Name: "note", InputSchema: json.RawMessage(note), OutputSchema: json.RawMessage(note)}, echo)
	server.AddRawTool(library, server.Tool{Name: "lost", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#there"},"b":{"$anchor":"there"}}}`)}, echo)
	server.AddRawTool(library, server.Tool{Name: "read", InputSchema: open}, fixed(`{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}`))
	server.AddRawTool(library, server.Tool{Name: "fail", InputSchema: open}, fixed(`{"content":[{"type":"text","text":"no such file"}],"isError":true}`))

	servers, err := bridge.New(&bridge.Options{Logger: quiet}, bridge.Config{Alias: "library", Dialer: transport.Pipe(library)})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1"}, &server.Options{Logger: quiet})
	if err := s.Mount(servers, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g := gateway.New(s, &gateway.Options{States: servers.States, Logger: quiet})
	return &gatewayRig{servers, serve(t, g.REST(nil).ServeHTTP), g.Authenticator().Token()}
}

// document returns the OpenAPI document of the gateway.
func (r *gatewayRig) document(t *testing.T) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, error %v: %s", response.StatusCode, err, text)
	}
	return text
}

// The document of a gateway is valid OpenAPI, and has the schemas of the servers.
func TestDocumentOfGateway(t *testing.T) {
	text := newGateway(t).document(t)
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	wantContains(t, string(text),
		`"library__add.input":`+strings.ReplaceAll(book, `"#/$defs/`, `"#/components/schemas/library__add.input/$defs/`),
		`"library__add.output":`+strings.ReplaceAll(book, `"#/$defs/`, `"#/components/schemas/library__add.output/$defs/`),
		`"library__lost.input":{"type":"object"}`,
	)
	add := document.Paths.Value("/tools/library__add").Post
	if add.OperationID != "library__add" || add.Summary != "Add" || add.Description != `Adds a "book".` {
		t.Errorf("the operation is %+v", add)
	}
}

// Importing the document of a gateway yields the same tools, which call through the gateway.
func TestGatewayAsProvider(t *testing.T) {
	r := newGateway(t)
	imported := provide(t, r.document(t), openapi.Options{BaseURL: r.url, Authorize: openapi.Credentials{"token": r.token}.Authorize})
	handler := server.New(mcp.Implementation{Name: "handler", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := handler.Mount(imported, nil); err != nil {
		t.Fatal(err)
	}
	defer handler.Shutdown(context.Background())
	session, err := client.Connect(t.Context(), transport.Pipe(handler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	here := make(map[string]*mcp.Tool)
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		here[tool.Name] = tool
	}
	there, err := r.bridge.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range there {
		names = append(names, tool.Name)
		switch imported := here[tool.Name]; tool.Name {
		case "library__add":
			sameSchema(t, "output", tool.OutputSchema, imported.OutputSchema)
		case "library__note":
			sameSchema(t, "input", tool.InputSchema, imported.InputSchema)
			sameSchema(t, "output", tool.OutputSchema, imported.OutputSchema)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, toolNames(imported)); diff != "" {
		t.Errorf("the tools (-there +here):\n%s", diff)
	}
	arguments := json.RawMessage(`{"text":"\u00e9 < 1","lines":[12345678901234567,2]}`)
	result, err := session.CallTool(t.Context(), "library__note", arguments, nil)
	if err != nil || result.IsError {
		t.Fatalf("the call: %+v, %v", result, err)
	}
	sameSchema(t, "result", arguments, result.StructuredContent)
	for name, fails := range map[string]bool{"library__fail": true, "library__read": false} {
		if result, err = session.CallTool(t.Context(), name, nil, nil); err != nil || result.IsError != fails {
			t.Errorf("%s without arguments: %+v, %v", name, result, err)
		}
	}
}

// sameSchema compares JSON except for the order of members.
func sameSchema(t *testing.T, name string, there, here json.RawMessage) {
	t.Helper()
	var values [2]any
	for i, text := range []json.RawMessage{there, here} {
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
	}
	if diff := cmp.Diff(values[0], values[1]); diff != "" {
		t.Errorf("%s (-there +here):\n%s", name, diff)
	}
}

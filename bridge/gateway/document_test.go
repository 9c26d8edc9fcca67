package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport"
)

// book is a schema whose references lead within it, and to what only looks like one.
const book = `{"type":"object","required":["title"],"additionalProperties":false,` +
	`"properties":{"title":{"type":"string","description":"of the \u201cbook\u201d"},"author":{"$ref":"#/$defs/person"},` +
	`"default":{"$ref":"#/$defs/person"},"size":{"type":"integer","default":1}},` +
	`"$defs":{"person":{"type":"object","properties":{"name":{"type":"string"},"friend":{"$ref":"#/$defs/person"}}}}}`

// note is a schema without references.
const note = `{"type":"object","required":["text"],"additionalProperties":false,` +
	`"properties":{"text":{"type":"string","minLength":1},"lines":{"type":"array","items":{"type":"integer"}}}}`

// newLibrary is a server with tools of every kind of schema.
func newLibrary() *shelf {
	s := newShelf()
	echo := func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("a book")}, StructuredContent: arguments}, nil
	}
	s.does("add", server.Tool{Title: "Add", Description: "Adds a \"book\".", InputSchema: json.RawMessage(book), OutputSchema: json.RawMessage(book)}, echo)
	s.does("note", server.Tool{InputSchema: json.RawMessage(note), OutputSchema: json.RawMessage(note)}, echo)
	s.does("lost", server.Tool{InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#there"},"b":{"$anchor":"there"}}}`)}, echo)
	return s
}

// TestDocument: the document is OpenAPI, and has the schemas as the servers wrote them.
func TestDocument(t *testing.T) {
	r := &rig{token: aToken}
	r.bridge = newBridge(t, to("library", newLibrary()))
	r.serve(t, gateway.Options{}, operator{})
	text := r.get(t, restPath+"/openapi.json").body
	loader := openapi3.NewLoader()
	document, err := loader.LoadFromData([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, want := range []string{
		`"library__add.input":` + strings.ReplaceAll(book, `"#/$defs/`, `"#/components/schemas/library__add.input/$defs/`),
		`"library__add.output":` + strings.ReplaceAll(book, `"#/$defs/`, `"#/components/schemas/library__add.output/$defs/`),
		`"library__lost.input":{"type":"object"}`,
		`"operationId":"library__add","summary":"Add","description":"Adds a \"book\"."`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
}

// TestDocumentBringsTheToolsBack: whoever imports the document has the same tools, and calls
// them through the gateway.
func TestDocumentBringsTheToolsBack(t *testing.T) {
	r := &rig{token: aToken}
	r.bridge = newBridge(t, to("library", newLibrary()))
	r.serve(t, gateway.Options{}, operator{})
	imported, err := openapi.New([]byte(r.get(t, restPath+"/openapi.json").body), &openapi.Options{
		BaseURL: r.url + restPath, Authorize: openapi.Credentials{"token": aToken}.Authorize, Logger: quiet(),
		HTTPClient: &http.Client{Transport: http.DefaultTransport},
	})
	if err != nil {
		t.Fatal(err)
	}
	face := server.New(mcp.Implementation{Name: "face", Version: "1"}, &server.Options{Logger: quiet()})
	if err := face.Mount(imported, nil); err != nil {
		t.Fatal(err)
	}
	defer face.Shutdown(context.Background())
	session, err := client.Connect(t.Context(), transport.Pipe(face), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	tools := make(map[string]*mcp.Tool)
	var names []string
	for tool, err := range session.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool
		names = append(names, tool.Name)
	}
	before := r.names()
	slices.Sort(before)
	slices.Sort(names)
	if diff := cmp.Diff(before, names); diff != "" {
		t.Errorf("the tools (-there +here):\n%s", diff)
	}
	there, err := r.bridge.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range there {
		switch here := tools[there.Name]; there.Name {
		case "library__add":
			sameSchema(t, "output", there.OutputSchema, here.OutputSchema)
		case "library__note":
			sameSchema(t, "input", there.InputSchema, here.InputSchema)
			sameSchema(t, "output", there.OutputSchema, here.OutputSchema)
		}
	}
	arguments := json.RawMessage(`{"text":"\u00e9 < 1","lines":[12345678901234567,2]}`)
	result, err := session.CallTool(t.Context(), "library__note", arguments, nil)
	if err != nil || result.IsError {
		t.Fatalf("the call: %+v, %v", result, err)
	}
	if diff := cmp.Diff(decoded(t, arguments), decoded(t, result.StructuredContent)); diff != "" {
		t.Errorf("the result (-want +got):\n%s", diff)
	}
	for name, fails := range map[string]bool{"library__fail": true, "library__read": false} {
		if result, err = session.CallTool(t.Context(), name, nil, nil); err != nil || result.IsError != fails {
			t.Errorf("%s without arguments: %+v, %v", name, result, err)
		}
	}
}

// sameSchema compares schemas but for what a reader of REST documents cannot keep: the order
// of members.
func sameSchema(t *testing.T, name string, before, after json.RawMessage) {
	t.Helper()
	if diff := cmp.Diff(decoded(t, before), decoded(t, after)); diff != "" {
		t.Errorf("the %s schema (-there +here):\n%s", name, diff)
	}
}

func decoded(t *testing.T, text json.RawMessage) (value any) {
	t.Helper()
	unmarshal(t, string(text), &value)
	return value
}

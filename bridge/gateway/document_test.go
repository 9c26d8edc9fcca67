package gateway_test

import (
	"bytes"
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
	"github.com/dovetail-go/dovetail/internal/frontend/frontendtest"
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

// newLibrary returns a server with tools with all kinds of schemas.
func newLibrary() *frontendtest.Upstream {
	s := newUpstream()
	echo := func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("a book")}, StructuredContent: arguments}, nil
	}
	s.AddFunc("add", server.Tool{Title: "Add", Description: "Adds a \"book\".", InputSchema: json.RawMessage(book), OutputSchema: json.RawMessage(book)}, echo)
	s.AddFunc("note", server.Tool{InputSchema: json.RawMessage(note), OutputSchema: json.RawMessage(note)}, echo)
	s.AddFunc("lost", server.Tool{InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#there"},"b":{"$anchor":"there"}}}`)}, echo)
	return s
}

// TestDocument: the document is valid OpenAPI, and has the schemas of the servers.
func TestDocument(t *testing.T) {
	r := &rig{token: aToken}
	r.bridge = frontendtest.Bridge(t, frontendtest.To("library", newLibrary()))
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
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	add := document.Paths.Value("/tools/library__add").Post
	if add.OperationID != "library__add" || add.Summary != "Add" || add.Description != `Adds a "book".` {
		t.Errorf("the operation is %+v", add)
	}
}

// TestDocumentBringsTheToolsBack: importing the document yields the same tools, which call
// through the gateway.
func TestDocumentBringsTheToolsBack(t *testing.T) {
	r := &rig{token: aToken}
	r.bridge = frontendtest.Bridge(t, frontendtest.To("library", newLibrary()))
	r.serve(t, gateway.Options{}, operator{})
	imported, err := openapi.New([]byte(r.get(t, restPath+"/openapi.json").body), &openapi.Options{
		BaseURL: r.url + restPath, Authorize: openapi.Credentials{"token": aToken}.Authorize, Logger: frontendtest.Quiet(),
		HTTPClient: &http.Client{Transport: http.DefaultTransport},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := server.New(mcp.Implementation{Name: "handler", Version: "1"}, &server.Options{Logger: frontendtest.Quiet()})
	if err := handler.Mount(imported, nil); err != nil {
		t.Fatal(err)
	}
	defer handler.Shutdown(context.Background())
	session, err := client.Connect(t.Context(), transport.Pipe(handler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	tools := make(map[string]*mcp.Tool)
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
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

// sameSchema compares schemas except for the order of members.
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

// TestMovedSchemas: references are rewritten, other data stays the same, and a schema that
// cannot be moved is replaced.
func TestMovedSchemas(t *testing.T) {
	const to, immovable = "#/components/schemas/s__x.input", `{"type":"object"}`
	for schema, want := range map[string]string{
		` { "type" : "object" , "description":"\u00e9" } `: `{ "type" : "object" , "description":"\u00e9" }`,
		`{"$ref":"#"}`: `{"$ref":"` + to + `"}`,
		`{"items" : { "\u0024ref" : "#/$defs/a~1b" },"x":1}`:                      `{"items" : { "\u0024ref" : "` + to + `/$defs/a~1b" },"x":1}`,
		`{"allOf":[{"$ref":"#/a"},true,{"not":{"$ref":"#/b"}}]}`:                  `{"allOf":[{"$ref":"` + to + `/a"},true,{"not":{"$ref":"` + to + `/b"}}]}`,
		`{"properties":{"$ref":{"$ref":"#/a"},"const":{"$ref":"#/b"}}}`:           `{"properties":{"$ref":{"$ref":"` + to + `/a"},"const":{"$ref":"` + to + `/b"}}}`,
		`{"const":{"$ref":"#/a"},"enum":[{"$ref":"x"}],"default":{"$id":"x"}}`:    `{"const":{"$ref":"#/a"},"enum":[{"$ref":"x"}],"default":{"$id":"x"}}`,
		`{"properties":{"$id":{"type":"string"}}}`:                                `{"properties":{"$id":{"type":"string"}}}`,
		`{"dependencies":{"a":["$ref"],"b":{"$ref":"#/b"}}}`:                      `{"dependencies":{"a":["$ref"],"b":{"$ref":"` + to + `/b"}}}`,
		`{"$ref":"https://example.com/schema"}`:                                   immovable,
		`{"$ref":"#anchor"}`:                                                      immovable,
		`{"$id":"https://example.com/schema","items":{"$ref":"#/a"}}`:             immovable,
		`{"items":{"$dynamicRef":"#a"}}`:                                          immovable,
		`{"items":{"a":1,"a":2}}`:                                                 immovable,
		`{"items":` + strings.Repeat(`[`, 2000) + strings.Repeat(`]`, 2000) + `}`: immovable,
		`true`: immovable,
		`null`: immovable,
	} {
		s := newStub(immovable)
		g := s.gateway(t, gateway.Options{})
		s.catalog = newStub(strings.TrimSpace(schema), "x").catalog // only now: an invalid schema cannot be mounted
		var document struct {
			Components struct{ Schemas map[string]json.RawMessage }
		}
		answer := send(g.REST(nil), "GET", "/openapi.json", "").Body.String()
		if strings.Contains(schema, "[[[[") { // too deep for an entry of a list
			if strings.Contains(answer, "s__x") {
				t.Errorf("a tool is in the document that cannot be read")
			}
			continue
		}
		unmarshal(t, answer, &document)
		var spaceless bytes.Buffer // as in the document
		if err := json.Compact(&spaceless, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got := string(document.Components.Schemas["s__x.input"]); got != spaceless.String() {
			t.Errorf("%s\nis  %s\nnot %s", schema, got, want)
		}
	}
}

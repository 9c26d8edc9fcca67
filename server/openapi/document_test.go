package openapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/openapi"
)

func TestDocumentErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"is empty":          {"", "is empty"},
		"not an object":     {"[1]", "not an object"},
		"text":              {"hello", "not an object"},
		"broken JSON":       {`{"openapi":`, "not JSON"},
		"broken YAML":       {"a: [", "YAML"},
		"duplicate in JSON": {`{"openapi":"3.0.0","openapi":"3.0.0"}`, "openapi"},
		"duplicate in YAML": {"openapi: 3.0.0\nopenapi: 3.0.0", "duplicated"},
		"Swagger":           {`{"swagger":"2.0"}`, "Swagger 2.0"},
		"no version":        {`{"info":{}}`, `"openapi"`},
		"version number":    {`{"openapi":3.0}`, `"openapi"`},
		"version 4":         {`{"openapi":"4.0.0"}`, "4.0.0"},
		"paths are a list":  {`{"openapi":"3.0.0","paths":[]}`, "paths"},
		"deep":              {`{"openapi":"3.0.0","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, "nests 301 deep"},
		"deep YAML":         {"openapi: 3.0.0\nx: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "nests"},
		"alias of itself":   {"openapi: &a [*a]", "nests"},
		"alias bomb": {
			"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
				"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g,*g]\n", "YAML",
		},
		"not a number": {"openapi: 3.0.0\nx: .nan", "not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openapi.New([]byte(test.text), nil)
			if e, ok := errors.AsType[*openapi.DocumentError](err); !ok || !strings.Contains(e.Error(), test.want) || e.Operation != "" {
				t.Errorf("the error is %v, want a DocumentError with %q", err, test.want)
			}
		})
	}
}

func TestLongErrorIsCut(t *testing.T) {
	text := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 100) + "]\nopenapi: 3.0.0\n"
	if _, err := openapi.New([]byte(text), nil); err == nil || !strings.Contains(err.Error(), "with its aliases") {
		t.Errorf("the error is %.300v", err)
	}
}

func TestYAMLMergeBomb(t *testing.T) {
	var text strings.Builder
	text.WriteString("a0: &a0 {x: 1}\n")
	for i := range 20 {
		fmt.Fprintf(&text, "a%d: &a%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	if _, err := openapi.New([]byte(text.String()), nil); err == nil {
		t.Error("the document was accepted")
	}
}

// JSON keeps its order, numbers and escapes.
func TestJSON(t *testing.T) {
	p := provide(t, []byte(`{
		"paths": {
			"\/b": {"get": {"operationId": "\u0062", "parameters": [
				{"name": "z", "in": "query", "schema": {"type": "number", "maximum": 1.50}},
				{"name": "a", "in": "query", "schema": {"enum": ["<&>",1e3,null]}}
			]}},
			"/a": {"post": {"operationId": "a"}}
		},
		"openapi": "3.1.0", "info": {"title": "Test", "version": "1"}
	}`), openapi.Options{})
	if diff := cmp.Diff([]string{"b", "a"}, toolNames(p)); diff != "" {
		t.Error(diff)
	}
	wantContains(t, string(tool(t, p, "b").InputSchema), `"properties":{"z":{"type":"number","maximum":1.50},"a":{"enum":["<&>",1e3,null]}}`)
}

// YAML keeps its order, and its numbers become JSON.
func TestYAML(t *testing.T) {
	p := provide(t, []byte(`
openapi: "3.1.0"
info: {title: Test, version: "1"}
x-limits: &limits {maximum: 1_000, minimum: 0x10}
paths:
  /b:
    get:
      operationId: b
      parameters:
      - {name: z, in: query, schema: {type: integer, <<: *limits, minimum: 1}}
      - {name: y, in: query, schema: {<<: [*limits], enum: [yes, 2020-01-02, ~, 1.50, true, 1e3]}}
      responses: {200: {description: ok}}
  /a: {get: {operationId: a}}
`), openapi.Options{})
	if diff := cmp.Diff([]string{"b", "a"}, toolNames(p)); diff != "" {
		t.Error(diff)
	}
	got := string(tool(t, p, "b").InputSchema)
	wantContains(t, got, `"z":{"type":"integer","minimum":1,"maximum":1000}`, `"y":{"enum":["yes","2020-01-02",null,1.50,true,1e3],"maximum":1000,"minimum":16}`)
}

func TestInvalidPathsAreSkipped(t *testing.T) {
	p := provide(t, document("3.0.3", "paths: {/text: nothing, /null: ~, x-extension: {get: {}}, /a: {get: {operationId: a}, x-more: 1, parameters: []}}"), openapi.Options{})
	if diff := cmp.Diff([]string{"a"}, toolNames(p)); diff != "" {
		t.Error(diff)
	}
}

func TestNoOperations(t *testing.T) {
	for _, paths := range []string{"", "paths: {}", "paths: {/a: {head: {}}}"} {
		var log bytes.Buffer
		provide(t, document("3.1.0", paths), openapi.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		wantContains(t, log.String(), "no operation of an OpenAPI document", "title=Test")
	}
}

func TestPathItemReference(t *testing.T) {
	p := provide(t, document("3.1.0", `
paths:
  /a: {$ref: '#/components/pathItems/A'}
components:
  pathItems: {A: {get: {operationId: a, parameters: [{name: q, in: query, schema: {$ref: '#/components/schemas/Q'}}]}}}
  schemas: {Q: {type: string}}
`), openapi.Options{})
	wantContains(t, string(tool(t, p, "a").InputSchema), `"q":{"type":"string"}`)
}

func TestServers(t *testing.T) {
	text := func(root, item, operation string) []byte {
		return document("3.0.3", root+"\npaths: {/a: {"+item+" get: {operationId: a, "+operation+"}}}")
	}
	const (
		root      = "servers: [{url: /relative}, {url: 'https://{region}.example/{v}', variables: {region: {default: eu}, v: {default: v1}}}]"
		item      = "servers: [{url: 'https://item.example'}], "
		operation = "servers: [{url: 'https://operation.example'}]"
	)
	for _, test := range []struct {
		name string
		text []byte
		base string
		want string
	}{
		{"document", text(root, "", ""), "", "https://eu.example/v1/a"},
		{"path", text(root, item, ""), "", "https://item.example/a"},
		{"operation", text(root, item, operation), "", "https://operation.example/a"},
		{"options", text(root, item, operation), "https://options.example/x/", "https://options.example/x/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got string
			opts := &openapi.Options{BaseURL: test.base, HTTPClient: recording(&got)}
			p, err := openapi.New(test.text, opts)
			if err != nil {
				t.Fatal(err)
			}
			call(t, p, "a", `{}`)
			if got != test.want {
				t.Errorf("the URL is %q, want %q", got, test.want)
			}
		})
	}
}

func TestOptionsErrors(t *testing.T) {
	text := document("3.0.3", "servers: [{url: /relative}]\npaths: {/a: {get: {}}}")
	if _, err := openapi.New(text, nil); err == nil || !strings.Contains(err.Error(), "Options.BaseURL") {
		t.Errorf("without a server the error is %v", err)
	}
	for _, opts := range []openapi.Options{
		{BaseURL: "ftp://a.example"},
		{BaseURL: "//a.example"},
		{BaseURL: "https://user:hunter2@a.example"},
		{BaseURL: "https://a.example?key=hunter2"},
		{BaseURL: "https://a.example#hunter2"},
		{BaseURL: "https://hunter2:%zz"},
		{BaseURL: "https://a.example", Include: []string{"CONNECT"}},
		{BaseURL: "https://a.example", Timeout: -time.Second},
		{BaseURL: "https://a.example", MaxResponse: -1},
	} {
		if _, err := openapi.New(text, &opts); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: the error is %v", opts, err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	text, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openapi.New(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall measures a call without the time of the service.
func BenchmarkCall(b *testing.B) {
	text, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		b.Fatal(err)
	}
	const note = `{"id":7,"text":"hello","tags":["a","b"]}`
	p := provide(b, text, openapi.Options{HTTPClient: responding(http.StatusCreated, "application/json", note)})
	entry := p.Catalog().Lookup(mcp.KindTool, "addNote")
	call := request(b, mcp.MethodToolsCall, `{"name":"addNote","arguments":{"text":"hello","tags":["a","b"]}}`)
	call.Resolve(&entry.Target, "", nil)
	b.ReportAllocs()
	for b.Loop() {
		result, err := entry.Handle(b.Context(), call)
		if err != nil {
			b.Fatal(err)
		}
		if encoded, err := result.AppendJSON(nil); err != nil || strings.Contains(string(encoded), "isError") {
			b.Fatalf("%s, %v", encoded, err)
		}
	}
}

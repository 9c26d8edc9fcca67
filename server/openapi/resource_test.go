package openapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport"
)

const resourceDocument = `
paths:
  /settings: {get: {operationId: settings, summary: Settings., responses: {'200': {description: ok, content: {application/json: {schema: {type: object}}}}}}}
  /pets/{id}:
    get:
      operationId: pet
      description: One pet.
      parameters:
      - {name: id, in: path, required: true, schema: {type: integer}}
      - {name: fields, in: query, schema: {type: array, items: {type: string}}}
      - {name: deep, in: query, schema: {$ref: '#/components/schemas/Deep'}}
      - {name: q, in: query, schema: {type: string}}
      - {name: 'page[size]', in: query, schema: {type: integer}}
      - {name: filter, in: query, schema: {type: object}}
components: {schemas: {Deep: {type: [boolean, 'null']}}}
`

var asResources = []openapi.Rule{{Expose: openapi.AsResource}}

func read(t *testing.T, p *openapi.Provider, uri string) (*mcp.ReadResourceResult, error) {
	t.Helper()
	quoted, err := json.Marshal(uri)
	if err != nil {
		t.Fatal(err)
	}
	result, err := handle(t.Context(), t, p, request(t, mcp.MethodResourcesRead, fmt.Sprintf(`{"uri":%s}`, quoted)))
	if err != nil {
		return nil, err
	}
	return result.(*mcp.ReadResourceResult), nil
}

func TestResources(t *testing.T) {
	p := provide(t, document("3.1.0", resourceDocument), openapi.Options{BaseURL: serve(t, serveEcho) + "/v1", Rules: asResources})
	resources := slices.Collect(p.Catalog().All(mcp.KindResource))
	templates := slices.Collect(p.Catalog().All(mcp.KindResourceTemplate))
	if p.Catalog().Len(mcp.KindTool) > 0 || len(resources) != 1 || len(templates) != 1 {
		t.Fatalf("there are %d tools, the resources %v and the templates %v", p.Catalog().Len(mcp.KindTool), resources, templates)
	}
	origin := strings.TrimSuffix(resources[0].Name, "/settings")
	want := []string{
		fmt.Sprintf(`{"uri":"%s/settings","name":"settings","title":"Settings.","description":"Settings.","mimeType":"application/json"}`, origin),
		fmt.Sprintf(`{"uriTemplate":"%s/pets/{id}{?fields*,deep,q}","name":"pet","description":"One pet."}`, origin),
	}
	if diff := cmp.Diff(want, []string{string(resources[0].Definition.JSON()), string(templates[0].Definition.JSON())}); diff != "" {
		t.Error(diff)
	}
	for uri, want := range map[string]string{
		origin + "/settings": "/v1/settings?",
		origin + "/pets/7":   "/v1/pets/7?",
		origin + "/pets/7?fields=a&fields=b%26c&deep=true&q=12": "/v1/pets/7?fields=a&fields=b%26c&deep=true&q=12",
		origin + "/pets/7?unknown=1":                            "/v1/pets/7?",
	} {
		result, err := read(t, p, uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		contents := result.Contents[0].(*mcp.TextResourceContents)
		var got echo
		if err := json.Unmarshal([]byte(contents.Text), &got); err != nil {
			t.Fatal(err)
		}
		if requested := got.Path + "?" + got.Query; requested != want || contents.URI != uri || contents.MIMEType != "application/json" {
			t.Errorf("%s: the service got a request for %s, want %s; %+v", uri, requested, want, contents)
		}
	}
	for _, uri := range []string{origin + "/pets/seven", origin + "/pets/7?deep=maybe", origin + "/pets/7?deep=truex"} {
		_, err := read(t, p, uri)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.InvalidParams {
			t.Errorf("%s: the error is %v", uri, err)
		}
	}
	for _, uri := range []string{origin + "/pets/", origin + "/other", "openapi://elsewhere/pets/7", "x"} {
		if _, err := read(t, p, uri); !mcp.IsResourceNotFound(err) {
			t.Errorf("%s: the error is %v", uri, err)
		}
	}
}

func TestResourceReadErrors(t *testing.T) {
	text := document("3.1.0", resourceDocument)
	for _, test := range []struct {
		client *http.Client
		want   jsonrpc.Code
	}{
		{responding(404, "text/plain", "none"), mcp.CodeResourceNotFound},
		{responding(410, "text/plain", "gone"), mcp.CodeResourceNotFound},
		{responding(500, "text/plain", "broken"), jsonrpc.InternalError},
		{&http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no way") })}, jsonrpc.InternalError},
	} {
		p := provide(t, text, openapi.Options{Rules: asResources, HTTPClient: test.client})
		_, err := read(t, p, "openapi://service.example/settings")
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != test.want {
			t.Errorf("the error is %v, want code %d", err, test.want)
		}
	}
	p := provide(t, text, openapi.Options{Rules: asResources, HTTPClient: responding(200, "image/png", "\x89PNG")})
	result, err := read(t, p, "openapi://service.example/settings")
	if err != nil {
		t.Fatal(err)
	}
	if blob := result.Contents[0].(*mcp.BlobResourceContents); string(blob.Blob) != "\x89PNG" || blob.MIMEType != "image/png" {
		t.Errorf("got %+v", blob)
	}
	for _, uri := range []string{"openapi://service.example/pets/..", "openapi://service.example/pets/%2e%2e"} {
		if _, err := read(t, p, uri); err == nil {
			t.Errorf("%s can be read", uri)
		}
	}
}

func TestResourceErrors(t *testing.T) {
	for paths, want := range map[string]string{
		"/a: {post: {}}": "only a GET operation",
		"/a: {get: {requestBody: {content: {text/plain: {}}}}}":                                    "request body",
		"/a: {get: {parameters: [{name: q, in: query, required: true, schema: {type: object}}]}}":  `"q"`,
		"/a: {get: {parameters: [{name: H, in: header, required: true, schema: {type: string}}]}}": `"H"`,
		"'/a/{b-c}': {get: {}}": "characters",
		"'/a/{b}': {get: {parameters: [{name: b, in: path, required: true, schema: {type: array}}]}}": "list",
		"'/a/{b}{c}': {get: {}}": "text between",
		"/a: {get: {operationId: a}}\n  /a#: {get: {operationId: b}}":                                                            "also the URI of GET /a",
		"/a: {get: {parameters: [{name: q, in: query, required: true, content: {application/json: {schema: {}}}}]}}":             `"q"`,
		"'/a/{b}': {get: {parameters: [{name: b, in: query, required: true, schema: {}}, {name: b, in: path, required: true}]}}": "another parameter",
	} {
		wantContains(t, problems(t, document("3.0.3", "paths:\n  "+paths), openapi.Options{Rules: asResources, HeaderParameters: true}), want)
	}
}

func TestOtherCalls(t *testing.T) {
	p := provide(t, document("3.1.0", resourceDocument), openapi.Options{})
	for _, test := range []struct {
		method, params string
		want           jsonrpc.Code
	}{
		{"prompts/get", `{"name":"pet"}`, jsonrpc.InvalidParams},
		{"none/such", `{}`, jsonrpc.MethodNotFound},
		{"tools/call", `{}`, jsonrpc.InvalidParams},
		{"tools/call", `{"name":7}`, jsonrpc.InvalidParams},
		{"tools/call", `{"name":"none"}`, jsonrpc.InvalidParams},
		{"tools/call", `{"name":"pet","arguments":[]}`, jsonrpc.InvalidParams},
		{"resources/read", `{}`, jsonrpc.InvalidParams},
	} {
		_, err := handle(t.Context(), t, p, request(t, test.method, test.params))
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != test.want {
			t.Errorf("%s %s: the error is %v, want code %d", test.method, test.params, err, test.want)
		}
	}
}

// A mounted provider serves clients of both eras.
func TestMount(t *testing.T) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			notes, err := os.ReadFile("testdata/notes.yaml")
			if err != nil {
				t.Fatal(err)
			}
			s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
			p := provide(t, notes, openapi.Options{
				BaseURL: serve(t, serveEcho), OmitOutputSchemas: true, Authorize: openapi.Credentials{"key": "hunter2"}.Authorize,
				Rules: []openapi.Rule{{Methods: []string{"GET"}, Expose: openapi.AsResource}},
			})
			if err := s.Mount(p, &server.MountOptions{Prefix: "notes."}); err != nil {
				t.Fatal(err)
			}
			session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				session.Close()
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})

			result, err := session.CallTool(t.Context(), "notes.addNote", json.RawMessage(`{"text":"hello","tags":["a"]}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got echo
			if err := json.Unmarshal(result.StructuredContent, &got); err != nil || got.Body != `{"text":"hello","tags":["a"]}` || got.Headers.Get("X-Key") != "hunter2" {
				t.Errorf("the service got %+v, %v", got, err)
			}
			if result, err = session.CallTool(t.Context(), "notes.addNote", json.RawMessage(`{"id":1,"text":"hello"}`), nil); err != nil || !result.IsError {
				t.Errorf("a readOnly property was accepted: %v, %v", result, err)
			}

			var templates []string
			for template, err := range session.Templates(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				templates = append(templates, template.URITemplate)
			}
			if len(templates) != 2 {
				t.Fatalf("the templates are %q", templates)
			}
			origin := templates[1][:len(templates[1])-len("/notes/{id}")]
			read, err := session.ReadResource(t.Context(), origin+"/notes/7", nil)
			if err != nil {
				t.Fatal(err)
			}
			if contents := read.Contents[0].(*mcp.TextResourceContents); contents.MIMEType != "application/json" {
				t.Errorf("got %+v", contents)
			}
		})
	}
}

package openapi_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/server/openapi"
)

// Parameters of the operation take the place of those of the path with the same name
// and place, wherever either is defined.
func TestParametersAreMergedByNameAndPlace(t *testing.T) {
	p := provide(t, document("3.0.3", `
paths:
  /pets/{id}:
    parameters:
    - {name: id, in: path, required: true, schema: {type: string}}
    - {name: limit, in: query, description: of the path, schema: {type: string}}
    - {$ref: '#/components/parameters/Page'}
    get:
      operationId: get
      parameters:
      - {name: limit, in: query, description: of the operation, required: true, schema: {type: integer, description: of the schema}}
      - {name: page, in: query, schema: {type: boolean}}
      - {name: id, in: query, schema: {type: integer}}
components:
  parameters:
    Page: {name: page, in: query, schema: {type: integer}}
`), openapi.Options{BaseURL: serve(t, echoing)})
	const want = `{"type":"object","properties":{` +
		`"id":{"type":"string"},` +
		`"limit":{"type":"integer","description":"of the operation"},` +
		`"page":{"type":"boolean"},` +
		`"query_id":{"type":"integer"}},` +
		`"required":["id","limit"],"additionalProperties":false}`
	if got := string(tool(t, p, "get").InputSchema); got != want {
		t.Errorf("the schema is\n%s, want\n%s", got, want)
	}
	got := echoed(t, p, "get", `{"id":"7","limit":3,"query_id":9}`)
	if got.Path != "/pets/7" || got.Query != "limit=3&id=9" {
		t.Errorf("got %+v", got)
	}
}

func TestHeadersAndCookiesAreOptIn(t *testing.T) {
	text := document("3.0.3", `
paths:
  /a:
    get:
      operationId: get
      parameters:
      - {name: X-Trace, in: header, schema: {type: string}}
      - {name: Accept, in: header, schema: {type: string}}
      - {name: authorization, in: header, schema: {type: string}}
      - {name: Host, in: header, schema: {type: string}}
      - {name: session, in: cookie, schema: {type: string}}
      - {in: query, schema: {type: string}}
`)
	p := provide(t, text, openapi.Options{BaseURL: serve(t, echoing)})
	if got := string(tool(t, p, "get").InputSchema); got != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("unasked, the schema is %s", got)
	}
	p = provide(t, text, openapi.Options{BaseURL: serve(t, echoing), HeaderParameters: true})
	if got := string(tool(t, p, "get").InputSchema); got != `{"type":"object","properties":{"X-Trace":{"type":"string"},"session":{"type":"string"}},"additionalProperties":false}` {
		t.Errorf("asked for, the schema is %s", got)
	}
	got := echoed(t, p, "get", `{"X-Trace":"t","session":"s"}`)
	if got.Headers.Get("X-Trace") != "t" || got.Headers.Get("Cookie") != "session=s" {
		t.Errorf("got %v", got.Headers)
	}
}

func TestPathsAsTheyComeInDocuments(t *testing.T) {
	p := provide(t, document("3.0.3", `
paths:
  /undeclared/{id}: {get: {operationId: undeclared}}
  /twice/{id}/{id}: {get: {operationId: twice, parameters: [{name: id, in: path, required: true, schema: {type: integer}}]}}
  /mixed/{name}.{ext}: {get: {operationId: mixed}}
  "/odd chars/ü:{x}": {get: {operationId: odd}}
  /encoded%20space: {get: {operationId: encoded}}
  /fragment#one: {get: {operationId: one}}
  /fragment#two: {get: {operationId: two}}
  /unused: {get: {operationId: unused, parameters: [{name: id, in: path, required: true}]}}
`), openapi.Options{BaseURL: serve(t, echoing) + "/base/"})
	for _, test := range []struct{ tool, arguments, want string }{
		{"undeclared", `{"id":"7"}`, "/base/undeclared/7"},
		{"twice", `{"id":7}`, "/base/twice/7/7"},
		{"mixed", `{"name":"a","ext":"b"}`, "/base/mixed/a.b"},
		{"odd", `{"x":"y"}`, "/base/odd%20chars/%C3%BC:y"},
		{"encoded", `{}`, "/base/encoded%20space"},
		{"one", `{}`, "/base/fragment"},
		{"two", `{}`, "/base/fragment"},
		{"unused", `{}`, "/base/unused"},
	} {
		if got := echoed(t, p, test.tool, test.arguments).Path; got != test.want {
			t.Errorf("%s: the path is %q, want %q", test.tool, got, test.want)
		}
	}
}

func TestUnusablePathsAreProblems(t *testing.T) {
	for _, path := range []string{"/a?b=c", "/{a", "/{}", "/%zz"} {
		wantContains(t, problems(t, document("3.0.3", "paths: {'"+path+"': {get: {}}}"), openapi.Options{}), "openapi: GET "+path+": ", "path")
	}
}

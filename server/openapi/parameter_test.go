package openapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/openapi"
)

// Parameters of the operation override parameters of the path with the same name and location.
func TestMergedParameters(t *testing.T) {
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
`), openapi.Options{BaseURL: serve(t, serveEcho)})
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

func TestHeaderParameters(t *testing.T) {
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
	p := provide(t, text, openapi.Options{BaseURL: serve(t, serveEcho)})
	if got := string(tool(t, p, "get").InputSchema); got != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("without HeaderParameters the schema is %s", got)
	}
	p = provide(t, text, openapi.Options{BaseURL: serve(t, serveEcho), HeaderParameters: true})
	if got := string(tool(t, p, "get").InputSchema); got != `{"type":"object","properties":{"X-Trace":{"type":"string"},"session":{"type":"string"}},"additionalProperties":false}` {
		t.Errorf("with HeaderParameters the schema is %s", got)
	}
	got := echoed(t, p, "get", `{"X-Trace":"t","session":"s"}`)
	if got.Headers.Get("X-Trace") != "t" || got.Headers.Get("Cookie") != "session=s" {
		t.Errorf("got %v", got.Headers)
	}
}

func TestPaths(t *testing.T) {
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
`), openapi.Options{BaseURL: serve(t, serveEcho) + "/base/"})
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

func TestPathErrors(t *testing.T) {
	for _, path := range []string{"/a?b=c", "/{a", "/{}", "/%zz"} {
		wantContains(t, problems(t, document("3.0.3", "paths: {'"+path+"': {get: {}}}"), openapi.Options{}), "openapi: GET "+path+": ", "path")
	}
}

// The examples of OpenAPI 3.1.1, section 4.8.12.6.
const (
	array  = `["blue","black","brown"]`
	object = `{"R":100,"G":200,"B":150}`
)

var styleTests = []struct {
	in, style string
	explode   bool
	value     string
	want      string // of the path, the query, the header or the cookies
}{
	{"path", "matrix", false, `"blue"`, ";color=blue"},
	{"path", "matrix", false, array, ";color=blue,black,brown"},
	{"path", "matrix", false, object, ";color=R,100,G,200,B,150"},
	{"path", "matrix", true, `"blue"`, ";color=blue"},
	{"path", "matrix", true, array, ";color=blue;color=black;color=brown"},
	{"path", "matrix", true, object, ";R=100;G=200;B=150"},
	{"path", "label", false, `"blue"`, ".blue"},
	{"path", "label", false, array, ".blue,black,brown"},
	{"path", "label", false, object, ".R,100,G,200,B,150"},
	{"path", "label", true, array, ".blue.black.brown"},
	{"path", "label", true, object, ".R=100.G=200.B=150"},
	{"path", "simple", false, `"blue"`, "blue"},
	{"path", "simple", false, array, "blue,black,brown"},
	{"path", "simple", false, object, "R,100,G,200,B,150"},
	{"path", "simple", true, array, "blue,black,brown"},
	{"path", "simple", true, object, "R=100,G=200,B=150"},

	{"query", "form", false, `"blue"`, "color=blue"},
	{"query", "form", false, `""`, "color="},
	{"query", "form", false, array, "color=blue,black,brown"},
	{"query", "form", false, object, "color=R,100,G,200,B,150"},
	{"query", "form", true, array, "color=blue&color=black&color=brown"},
	{"query", "form", true, object, "R=100&G=200&B=150"},
	{"query", "form", true, `[]`, ""},
	{"query", "form", true, `{}`, ""},
	{"query", "form", true, `null`, ""},
	{"query", "form", true, `[null,"a"]`, "color=a"},
	{"query", "form", true, `12345678901234567890`, "color=12345678901234567890"},
	{"query", "form", true, `true`, "color=true"},
	{"query", "spaceDelimited", false, array, "color=blue%20black%20brown"},
	{"query", "spaceDelimited", false, object, "color=R%20100%20G%20200%20B%20150"},
	{"query", "spaceDelimited", true, array, "color=blue&color=black&color=brown"},
	{"query", "pipeDelimited", false, array, "color=blue%7Cblack%7Cbrown"},
	{"query", "pipeDelimited", false, object, "color=R%7C100%7CG%7C200%7CB%7C150"},
	{"query", "deepObject", true, object, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
	{"query", "deepObject", true, `{"a":{"b":["x","y"]},"c":null}`, "color%5Ba%5D%5Bb%5D=x&color%5Ba%5D%5Bb%5D=y"},

	{"header", "simple", false, `"blue"`, "blue"},
	{"header", "simple", false, array, "blue,black,brown"},
	{"header", "simple", false, object, "R,100,G,200,B,150"},
	{"header", "simple", true, object, "R=100,G=200,B=150"},

	{"cookie", "form", false, `"blue"`, "color=blue"},
	{"cookie", "form", false, array, "color=blue,black,brown"},
	{"cookie", "form", false, object, "color=R,100,G,200,B,150"},
	{"cookie", "form", true, array, "color=blue; color=black; color=brown"},
	{"cookie", "form", true, `"a;b=c, d"`, "color=a%3Bb%3Dc%2C%20d"},
}

func TestStyles(t *testing.T) {
	url := serve(t, serveEcho)
	for _, test := range styleTests {
		t.Run(fmt.Sprintf("%s %s %t %s", test.in, test.style, test.explode, test.value), func(t *testing.T) {
			path := "/a"
			if test.in == "path" {
				path = "/a/{color}"
			}
			p := provide(t, document("3.0.3", fmt.Sprintf(`
paths:
  %s:
    get:
      operationId: get
      parameters:
      - {name: color, in: %s, required: true, style: %s, explode: %t, schema: {}}
`, path, test.in, test.style, test.explode)), openapi.Options{BaseURL: url, HeaderParameters: true})
			got := echoed(t, p, "get", `{"color":`+test.value+`}`)
			where := map[string]string{
				"path": strings.TrimPrefix(got.Path, "/a/"), "query": got.Query,
				"header": got.Headers.Get("Color"), "cookie": got.Headers.Get("Cookie"),
			}
			if where[test.in] != test.want {
				t.Errorf("the %s is %q, want %q", test.in, where[test.in], test.want)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	for name, test := range map[string]struct {
		path, parameters, arguments string
		want                        echo
	}{
		"default styles": {
			"/a/{p}",
			"{name: p, in: path, required: true, schema: {type: array}}, {name: q, in: query, schema: {type: array}}, " +
				"{name: H, in: header, schema: {type: array}}, {name: c, in: cookie, schema: {type: array}}",
			`{"p":[1,2],"q":[1,2],"H":[1,2],"c":[1,2]}`,
			echo{Path: "/a/1,2", Query: "q=1&q=2", Headers: http.Header{"H": {"1,2"}, "Cookie": {"c=1; c=2"}}},
		},
		"content": {
			"/a", "{name: filter, in: query, content: {application/json: {schema: {type: object}}}}", `{"filter":{"a":[1,{"b":"&"}]}}`,
			echo{Path: "/a", Query: "filter=%7B%22a%22%3A%5B1%2C%7B%22b%22%3A%22%26%22%7D%5D%7D"},
		},
		"characters that would end the value are always encoded": {
			"/a", "{name: plain, in: query, schema: {type: string}}, {name: reserved, in: query, allowReserved: true, schema: {type: string}}",
			`{"plain":"/a?b=c&d#e+f g","reserved":"/a?b=c&d#e+f g"}`,
			echo{Path: "/a", Query: "plain=%2Fa%3Fb%3Dc%26d%23e%2Bf%20g&reserved=/a?b%3Dc%26d%23e%2Bf%20g"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := echoed(t, echoOperation(t, "get", test.path, "parameters: ["+test.parameters+"]"), "call", test.arguments)
			if got.Path != test.want.Path || got.Query != test.want.Query || got.Headers.Get("H") != test.want.Headers.Get("H") || got.Headers.Get("Cookie") != test.want.Headers.Get("Cookie") {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestNestedValues(t *testing.T) {
	p := echoOperation(t, "get", "/a/{p}", "parameters: [{name: p, in: path, required: true, schema: {}}, {name: q, in: query, schema: {}}]")
	for _, arguments := range []string{`{"p":[[1]]}`, `{"p":{"a":{}}}`, `{"p":1,"q":[{"a":1}]}`, `{"p":1,"q":{"a":[1]}}`} {
		wantContains(t, callError(t, p, "call", arguments), "nested lists and objects are not supported here")
	}
}

func TestStyleErrors(t *testing.T) {
	for _, parameter := range []string{
		`{name: p, in: query, style: matrix}`, `{name: p, in: body}`, `{name: p, in: query, style: x}`,
		`{name: "a b", in: header}`, `{name: "a;b", in: cookie}`,
	} {
		got := problems(t, document("3.1.0", "paths: {/a: {get: {parameters: ["+parameter+"]}}}"), openapi.Options{HeaderParameters: true})
		wantContains(t, got, "openapi: GET /a: ")
	}
}

func TestExposuresAsText(t *testing.T) {
	for exposure, want := range map[openapi.Exposure]string{openapi.AsTool: "tool", openapi.AsResource: "resource", openapi.Excluded: "excluded", 9: "Exposure(9)"} {
		if got := exposure.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

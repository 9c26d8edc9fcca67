package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/openapi"
)

// The values of the specification's own table, OpenAPI 3.1.1, section 4.8.12.6.
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
	url := serve(t, echoing)
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

func TestDefaultStyles(t *testing.T) {
	p := provide(t, document("3.1.0", `
paths:
  /a/{p}:
    get:
      operationId: get
      parameters:
      - {name: p, in: path, required: true, schema: {type: array}}
      - {name: q, in: query, schema: {type: array}}
      - {name: H, in: header, schema: {type: array}}
      - {name: c, in: cookie, schema: {type: array}}
`), openapi.Options{BaseURL: serve(t, echoing), HeaderParameters: true})
	got := echoed(t, p, "get", `{"p":[1,2],"q":[1,2],"H":[1,2],"c":[1,2]}`)
	if got.Path != "/a/1,2" || got.Query != "q=1&q=2" || got.Headers.Get("H") != "1,2" || got.Headers.Get("Cookie") != "c=1; c=2" {
		t.Errorf("got %+v", got)
	}
}

func TestParameterWithContentIsJSONText(t *testing.T) {
	p := provide(t, document("3.1.0", `
paths:
  /a:
    get:
      operationId: get
      parameters:
      - {name: filter, in: query, content: {application/json: {schema: {type: object}}}}
`), openapi.Options{BaseURL: serve(t, echoing)})
	if got := echoed(t, p, "get", `{"filter":{"a":[1,{"b":"&"}]}}`).Query; got != "filter=%7B%22a%22%3A%5B1%2C%7B%22b%22%3A%22%26%22%7D%5D%7D" {
		t.Errorf("the query is %q", got)
	}
}

func TestReservedCharacters(t *testing.T) {
	p := provide(t, document("3.1.0", `
paths:
  /a:
    get:
      operationId: get
      parameters:
      - {name: plain, in: query, schema: {type: string}}
      - {name: reserved, in: query, allowReserved: true, schema: {type: string}}
`), openapi.Options{BaseURL: serve(t, echoing)})
	got := echoed(t, p, "get", `{"plain":"/a?b=c&d#e+f g","reserved":"/a?b=c&d#e+f g"}`).Query
	// What would end the value is encoded even where reserved characters are allowed.
	if want := "plain=%2Fa%3Fb%3Dc%26d%23e%2Bf%20g&reserved=/a?b%3Dc%26d%23e%2Bf%20g"; got != want {
		t.Errorf("the query is\n%s, want\n%s", got, want)
	}
}

func TestNestedValuesAreRefused(t *testing.T) {
	p := provide(t, document("3.1.0", `
paths:
  /a/{p}:
    get:
      operationId: get
      parameters:
      - {name: p, in: path, required: true, schema: {}}
      - {name: q, in: query, schema: {}}
`), openapi.Options{BaseURL: serve(t, echoing)})
	for _, arguments := range []string{`{"p":[[1]]}`, `{"p":{"a":{}}}`, `{"p":1,"q":[{"a":1}]}`, `{"p":1,"q":{"a":[1]}}`} {
		wantContains(t, refused(t, p, "get", arguments), "cannot be written in this place")
	}
}

func TestUnknownStylesAreProblems(t *testing.T) {
	for _, parameter := range []string{
		`{name: p, in: query, style: matrix}`, `{name: p, in: body}`, `{name: p, in: query, style: x}`,
		`{name: "a b", in: header}`, `{name: "a;b", in: cookie}`,
	} {
		got := problems(t, document("3.1.0", "paths: {/a: {get: {parameters: ["+parameter+"]}}}"), openapi.Options{HeaderParameters: true})
		wantContains(t, got, "openapi: GET /a: ")
	}
}

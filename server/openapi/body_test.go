package openapi_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/openapi"
)

// withBody returns a document with one operation that has a request body.
func withBody(version, media, schema string, more ...string) []byte {
	return document(version, fmt.Sprintf(`
paths:
  /pets/{id}:
    post:
      operationId: post
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      requestBody: {required: true, content: {%s: {schema: %s}}}
%s`, media, schema, strings.Join(more, "\n")))
}

func TestBodies(t *testing.T) {
	const components = `
components:
  schemas:
    Pet: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}}}
    Base: {type: object, properties: {name: {type: string}}}
    Dog: {allOf: [{$ref: '#/components/schemas/Base'}, {properties: {tricks: {type: array, items: {type: string}}}}]}`
	for _, test := range []struct {
		name, media, schema  string
		arguments            string // except the id
		contentType, content string
	}{
		{
			"object is flat", "application/json", "{type: object, properties: {name: {type: string}, age: {type: integer}}}",
			`"age":3,"name":"Rex"`, "application/json", `{"age":3,"name":"Rex"}`,
		},
		{"reference is flat", "application/json", "{$ref: '#/components/schemas/Pet'}", `"name":"Rex"`, "application/json", `{"name":"Rex"}`},
		{"nothing given is an empty object", "application/json", "{type: object, properties: {a: {}}}", "", "application/json", `{}`},
		{"null is kept", "application/json", "{type: object, properties: {a: {nullable: true, type: string}}}", `"a":null`, "application/json", `{"a":null}`},
		{"digits are kept", "application/json", "{type: object, properties: {a: {type: integer}}}", `"a":9007199254740993`, "application/json", `{"a":9007199254740993}`},
		{"clash is nested", "application/json", "{type: object, properties: {id: {type: string}}}", `"body":{"id":"x"}`, "application/json", `{"id":"x"}`},
		{"sum of plain objects is flat", "application/json", "{$ref: '#/components/schemas/Dog'}", `"name":"Rex","tricks":["sit"]`, "application/json", `{"name":"Rex","tricks":["sit"]}`},
		{"overlapping sum is nested", "application/json", "{allOf: [{$ref: '#/components/schemas/Dog'}, {$ref: '#/components/schemas/Base'}]}", `"body":{"name":"Rex"}`, "application/json", `{"name":"Rex"}`},
		{"closed part is nested", "application/json", "{allOf: [{properties: {a: {}}, additionalProperties: false}]}", `"body":{"a":1}`, "application/json", `{"a":1}`},
		{"closed object is flat", "application/json", "{properties: {a: {}}, additionalProperties: false}", `"a":1`, "application/json", `{"a":1}`},
		{"definitions beside are flat", "application/json", "{$schema: 'https://json-schema.org/draft/2020-12/schema', $defs: {A: {}}, properties: {a: {}}}", `"a":1`, "application/json", `{"a":1}`},
		{"choice is nested", "application/json", "{properties: {a: {}}, anyOf: [{required: [a]}]}", `"body":{"a":1}`, "application/json", `{"a":1}`},
		{"open object is nested", "application/json", "{type: object, properties: {a: {}}, additionalProperties: true}", `"body":{"b":1}`, "application/json", `{"b":1}`},
		{"list is nested", "application/json", "{type: array, items: {type: integer}}", `"body":[1, 2]`, "application/json", `[1, 2]`},
		{"scalar is nested", "application/json", "{type: string}", `"body":"a"`, "application/json", `"a"`},
		{"no schema is nested", "application/json", "{}", `"body":[]`, "application/json", `[]`},
		{"vendor JSON", "application/vnd.pet+json", "{type: object, properties: {name: {}}}", `"name":1`, "application/vnd.pet+json", `{"name":1}`},
		{"any type is JSON", `"*/*"`, "{type: object, properties: {name: {}}}", `"name":1`, "application/json", `{"name":1}`},
		{
			"urlencoded", "application/x-www-form-urlencoded",
			"{type: object, properties: {name: {type: string}, tags: {type: array}, owner: {type: object}}}",
			`"name":"a&b=c ü","tags":["x","y"],"owner":{"id":1}`,
			"application/x-www-form-urlencoded", "name=a%26b%3Dc%20%C3%BC&tags=x&tags=y&owner=%7B%22id%22%3A1%7D",
		},
		{"text", "text/plain", "{type: string}", `"body":"a\nb"`, "text/plain", "a\nb"},
		{"XML is text", "application/xml", "{type: object, properties: {a: {}}}", `"body":"<a/>"`, "application/xml", "<a/>"},
		{"bytes", "application/octet-stream", "{type: string, format: binary}", `"body":"AP8="`, "application/octet-stream", "\x00\xff"},
		{"picture", "image/png", "{}", `"body":"AP8="`, "image/png", "\x00\xff"},
		{"any picture", `"image/*"`, "{}", `"body":"AP8="`, "application/octet-stream", "\x00\xff"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var body []byte
			var contentType string
			url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				contentType = r.Header.Get("Content-Type")
			})
			p := provide(t, withBody("3.0.3", test.media, test.schema, components), openapi.Options{BaseURL: url})
			arguments := `{"id":7}`
			if test.arguments != "" {
				arguments = `{"id":7,` + test.arguments + `}`
			}
			if result := call(t, p, "post", arguments); result.IsError {
				t.Fatal(texts(result))
			}
			if string(body) != test.content || contentType != test.contentType {
				t.Errorf("the service got %q as %q, want %q as %q", body, contentType, test.content, test.contentType)
			}
		})
	}
}

// An optional body is omitted if none of its properties is given. Otherwise all required
// properties must be given.
func TestOptionalBody(t *testing.T) {
	p := echoOperation(t, "post", "/a",
		"requestBody: {content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}}}}}}")
	if got := echoed(t, p, "call", `{}`); got.Body != "" || got.Headers.Get("Content-Type") != "" {
		t.Errorf("without arguments the service got %+v", got)
	}
	if got := echoed(t, p, "call", `{"name":"Rex"}`); got.Body != `{"name":"Rex"}` {
		t.Errorf("with one the service got %+v", got)
	}
	wantContains(t, callError(t, p, "call", `{"age":1}`), "name")
}

func TestMultipart(t *testing.T) {
	type part struct{ disposition, contentType, content string }
	var parts []part
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			t.Error(err)
			return
		}
		for reader := multipart.NewReader(r.Body, params["boundary"]); ; {
			p, err := reader.NextRawPart()
			if err != nil {
				return
			}
			content, _ := io.ReadAll(p)
			parts = append(parts, part{p.Header.Get("Content-Disposition"), p.Header.Get("Content-Type"), string(content)})
		}
	})
	p := provide(t, document("3.1.0", `
paths:
  /files:
    post:
      operationId: upload
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              required: [photo]
              properties:
                photo: {type: string, format: binary}
                scans: {type: array, items: {type: string, contentMediaType: image/tiff}}
                caption: {type: string}
                count: {type: integer}
                tags: {type: array, items: {type: string}}
                meta: {type: object}
                notes: {type: string}
                'we"ird': {type: string}
            encoding:
              photo: {contentType: "image/png, image/jpeg"}
              notes: {contentType: text/markdown}
`), openapi.Options{BaseURL: url})
	schema := string(tool(t, p, "upload").InputSchema)
	wantContains(t, schema, `"photo":{"type":"string","contentEncoding":"base64"}`, `"required":["photo"]`)
	result := call(t, p, "upload", `{"photo":"AP8=","scans":["AQ==","Ag=="],"caption":"a\r\nb","count":3,"tags":["x","y"],"meta":{"k": 1},"notes":"# n","we\"ird":"w"}`)
	if result.IsError {
		t.Fatal(texts(result))
	}
	want := []part{
		{`form-data; name="photo"; filename="photo"`, "image/png", "\x00\xff"},
		{`form-data; name="scans"; filename="scans"`, "application/octet-stream", "\x01"},
		{`form-data; name="scans"; filename="scans"`, "application/octet-stream", "\x02"},
		{`form-data; name="caption"`, "", "a\r\nb"},
		{`form-data; name="count"`, "", "3"},
		{`form-data; name="tags"`, "", "x"},
		{`form-data; name="tags"`, "", "y"},
		{`form-data; name="meta"`, "application/json", `{"k": 1}`},
		{`form-data; name="notes"`, "text/markdown", "# n"},
		{`form-data; name="we%22ird"`, "", "w"},
	}
	if fmt.Sprint(parts) != fmt.Sprint(want) {
		t.Errorf("the service got\n%q, want\n%q", parts, want)
	}
	wantContains(t, callError(t, p, "upload", `{"photo":"not base64!"}`), `"photo"`, "base64")
}

func TestBodyEncodings(t *testing.T) {
	for name, test := range map[string]struct{ members, arguments, query, contentType, body string }{
		"form encodings": {
			"requestBody: {required: true, content: {application/x-www-form-urlencoded: {" +
				"schema: {type: object, properties: {card: {type: object}, ids: {type: array}, url: {type: string}}}, " +
				"encoding: {card: {style: deepObject, explode: true}, ids: {style: form, explode: false}, url: {allowReserved: true}}}}}",
			`{"card":{"exp":{"year":2030}},"ids":[1,2],"url":"https://a/b"}`,
			"", "application/x-www-form-urlencoded", "card%5Bexp%5D%5Byear%5D=2030&ids=1,2&url=https://a/b",
		},
		"JSON is preferred": {
			"requestBody: {content: {application/xml: {schema: {type: string}}, application/x-www-form-urlencoded: {schema: {type: object}}, " +
				"application/hal+json: {schema: {type: object}}, application/json; charset=utf-8: {schema: {type: object, properties: {a: {}}}}}}",
			`{"a":1}`, "", "application/json; charset=utf-8", `{"a":1}`,
		},
		"the name body is used": {
			"parameters: [{name: body, in: query, schema: {type: string}}], " +
				"requestBody: {required: true, description: the list, content: {application/json: {schema: {type: array}}}}",
			`{"body":"q","requestBody":[1]}`, "body=q", "application/json", "[1]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := echoed(t, echoOperation(t, "post", "/a", test.members), "call", test.arguments)
			if got.Query != test.query || got.Body != test.body || got.Headers.Get("Content-Type") != test.contentType {
				t.Errorf("the service got %+v, want %+v", got, test)
			}
		})
	}
}

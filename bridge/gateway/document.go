package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/frontend"
)

// The types of a document are those of OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.1.html).
type document struct {
	OpenAPI    string                `json:"openapi"`
	Info       documentInfo          `json:"info"`
	Servers    []documentServer      `json:"servers"`
	Security   []map[string][]string `json:"security"`
	Paths      map[string]pathItem   `json:"paths"`
	Components components            `json:"components"`
}

type documentInfo struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version"`
}

type documentServer struct {
	URL string `json:"url"`
}

type pathItem struct {
	Post operation `json:"post"`
}

type operation struct {
	OperationID string              `json:"operationId"`
	Summary     string              `json:"summary,omitempty"`
	Description string              `json:"description,omitempty"`
	RequestBody requestBody         `json:"requestBody"`
	Responses   map[string]response `json:"responses"`
}

type requestBody struct {
	Required bool                 `json:"required"`
	Content  map[string]mediaType `json:"content"`
}

type response struct {
	Ref         string               `json:"$ref,omitempty"`
	Description string               `json:"description,omitempty"`
	Content     map[string]mediaType `json:"content,omitempty"`
}

type mediaType struct {
	Schema json.RawMessage `json:"schema"`
}

type components struct {
	Schemas         map[string]json.RawMessage `json:"schemas"`
	Responses       map[string]response        `json:"responses"`
	SecuritySchemes map[string]securityScheme  `json:"securitySchemes"`
}

type securityScheme struct {
	Type   string `json:"type"`
	Scheme string `json:"scheme"`
}

const (
	// problemSchema is that of a [problem].
	problemSchema = `{"type":"object","properties":{"type":{"type":"string","format":"uri"},"title":{"type":"string"},` +
		`"status":{"type":"integer"},"detail":{"type":"string"},"error":{"type":"object"},"result":{"type":"object"}}}`
	// resultSchema is that of what a tool answers that declares no structured content.
	resultSchema = `{"type":"object","required":["content"],"properties":{` +
		`"content":{"type":"array","items":{"type":"object"}},"structuredContent":{},"isError":{"type":"boolean"}}}`
	resultComponent = "CallToolResult"
)

// document answers with the OpenAPI document of the tools that the caller may see.
func (f *restFrontend) document(w http.ResponseWriter, r *http.Request) {
	tools, failed := f.gateway.list(r.Context())
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	frontend.WriteJSON(w, http.StatusOK, frontend.Encode(f.opts.document(tools, f.gateway.access.opts.Open)))
}

// document describes tools. One whose name leads elsewhere as a segment of a path is left out.
func (o *RESTOptions) document(tools []tool, open bool) *document {
	d := &document{
		OpenAPI:  "3.1.1",
		Info:     documentInfo{cmp.Or(o.Title, "Tools"), o.Description, cmp.Or(o.Version, "1")},
		Servers:  []documentServer{{cmp.Or(o.URL, ".")}},
		Security: []map[string][]string{{"token": {}}},
		Paths:    make(map[string]pathItem),
		Components: components{
			Schemas: map[string]json.RawMessage{resultComponent: json.RawMessage(resultSchema)},
			Responses: map[string]response{"Problem": {
				Description: "Why the tool has no result, or how it has failed.",
				Content:     map[string]mediaType{"application/problem+json": {json.RawMessage(problemSchema)}},
			}},
			SecuritySchemes: map[string]securityScheme{"token": {"http", "bearer"}},
		},
	}
	if open {
		d.Security = append(d.Security, map[string][]string{})
	}
	for i := range tools {
		if name := tools[i].name; name != callSegment && name != "." && name != ".." {
			d.add(&tools[i])
		}
	}
	return d
}

func (d *document) add(t *tool) {
	key := d.key(t.name)
	input, output := d.component(key+".input", t.listed.Get("inputSchema")), reference(resultComponent)
	if schema := t.output(); schema != nil {
		output = d.component(key+".output", schema)
	}
	d.Paths["/tools/"+url.PathEscape(t.name)] = pathItem{operation{
		OperationID: t.name, Summary: t.text("title"), Description: t.text("description"),
		RequestBody: requestBody{t.needsArguments(), jsonOf(input)},
		Responses: map[string]response{
			"200":     {Description: "What the tool answers.", Content: jsonOf(output)},
			"default": {Ref: "#/components/responses/Problem"},
		},
	}}
}

func jsonOf(schema json.RawMessage) map[string]mediaType {
	return map[string]mediaType{"application/json": {schema}}
}

// key returns the name of the schemas of a tool: the tool's, in the characters of components.
func (d *document) key(name string) string {
	base := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
	key := base
	for i := 2; d.Components.Schemas[key+".input"] != nil; i++ {
		key = fmt.Sprintf("%s_%d", base, i)
	}
	return key
}

func reference(key string) json.RawMessage {
	return frontend.Encode(map[string]string{"$ref": "#/components/schemas/" + key})
}

// component adds a schema and returns the reference to it. A schema that has another meaning
// where it is not the root of its text becomes that of any object.
func (d *document) component(key string, schema json.RawMessage) json.RawMessage {
	moved, err := moveSchema(schema, "#/components/schemas/"+key)
	if err != nil {
		moved = []byte(`{"type":"object"}`)
	}
	d.Components.Schemas[key] = moved
	return reference(key)
}

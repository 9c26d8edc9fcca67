package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// What stands in each document beside the tools: how one is authorized, what an error looks
// like (RFC 9457), and what a tool answers that declares no structured content.
const (
	documentResponses = `{"Problem":{"description":"Why there is no answer of the tool, or how the tool has failed.",` +
		`"content":{"application/problem+json":{"schema":{"type":"object","properties":{` +
		`"type":{"type":"string","format":"uri"},"title":{"type":"string"},"status":{"type":"integer"},"detail":{"type":"string"},` +
		`"error":{"type":"object"},"result":{"type":"object"}}}}}}}`
	documentResult = `{"type":"object","required":["content"],"properties":{` +
		`"content":{"type":"array","items":{"type":"object"}},"structuredContent":{},"isError":{"type":"boolean"}}}`
	resultComponent = "CallToolResult"
)

// document answers with the OpenAPI document of what the caller may call.
func (f *restFace) document(w http.ResponseWriter, r *http.Request) {
	tools, failed := f.gateway.list(r.Context())
	if failed != nil {
		failed.write(w)
		return
	}
	writeJSON(w, http.StatusOK, f.opts.document(tools, f.gateway.opts.Access.opts.Open))
}

// document is OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.1.html) of tools. A tool whose
// name leads elsewhere as a segment of a path is left out.
func (o *RESTOptions) document(tools []tool, open bool) []byte {
	d := &documentWriter{keys: map[string]bool{resultComponent: true}}
	d.component(resultComponent, json.RawMessage(documentResult))
	for i := range tools {
		if name := tools[i].name; name != callSegment && name != "." && name != ".." {
			d.tool(&tools[i])
		}
	}
	out := jsonscan.AppendString([]byte(`{"openapi":"3.1.1","info":{"title":`), cmp.Or(o.Title, "Tools"))
	if o.Description != "" {
		out = jsonscan.AppendString(append(out, `,"description":`...), o.Description)
	}
	out = jsonscan.AppendString(append(out, `,"version":`...), cmp.Or(o.Version, "1"))
	out = jsonscan.AppendString(append(out, `},"servers":[{"url":`...), cmp.Or(o.URL, "."))
	out = append(out, `}],"security":[{"token":[]}`...)
	if open {
		out = append(out, `,{}`...)
	}
	out = append(append(append(out, `],"paths":{`...), d.paths...), `},"components":{"schemas":{`...)
	out = append(append(out, d.schemas...), `},"responses":`...)
	out = append(out, documentResponses...)
	return append(out, `,"securitySchemes":{"token":{"type":"http","scheme":"bearer"}}}}`...)
}

// A documentWriter writes the paths and schemas of a document.
type documentWriter struct {
	paths, schemas []byte
	keys           map[string]bool // of schemas
}

func (d *documentWriter) tool(t *tool) {
	key := d.key(t.name)
	d.component(key+".input", t.listed.Get("inputSchema"))
	answer := resultComponent
	if output := t.listed.Get("outputSchema"); jsonscan.KindOf(output) == jsonscan.Object {
		answer = key + ".output"
		d.component(answer, output)
	}
	if len(d.paths) > 0 {
		d.paths = append(d.paths, ',')
	}
	d.paths = jsonscan.AppendString(d.paths, "/tools/"+url.PathEscape(t.name))
	d.paths = jsonscan.AppendString(append(d.paths, `:{"post":{"operationId":`...), t.name)
	for _, said := range []struct{ member, as string }{{"title", "summary"}, {"description", "description"}} {
		if text := t.listed.Get(said.member); jsonscan.KindOf(text) == jsonscan.String {
			d.paths = append(append(append(append(d.paths, `,"`...), said.as...), `":`...), text...)
		}
	}
	d.paths = strconv.AppendBool(append(d.paths, `,"requestBody":{"required":`...), t.needsArguments())
	d.paths = append(d.paths, `,"content":{"application/json":{"schema":`...)
	d.paths = append(appendReference(d.paths, key+".input"), `}}},"responses":{"200":{"description":"What the tool answers.","content":{"application/json":{"schema":`...)
	d.paths = append(appendReference(d.paths, answer), `}}},"default":{"$ref":"#/components/responses/Problem"}}}}`...)
}

// key is what the schemas of a tool are called: as the tool, in the characters of components.
func (d *documentWriter) key(name string) string {
	base := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
	key := base
	for i := 2; d.keys[key]; i++ {
		key = fmt.Sprintf("%s_%d", base, i)
	}
	d.keys[key] = true
	return key
}

func appendReference(dst []byte, key string) []byte {
	return append(append(append(dst, `{"$ref":"#/components/schemas/`...), key...), `"}`...)
}

// component adds a schema. One that means nothing, or another thing, in a place that is not
// the root of its text becomes that of any object.
func (d *documentWriter) component(key string, schema json.RawMessage) {
	if len(d.schemas) > 0 {
		d.schemas = append(d.schemas, ',')
	}
	d.schemas = append(jsonscan.AppendString(d.schemas, key), ':')
	moved, err := moveSchema(schema, "#/components/schemas/"+key)
	if err != nil {
		moved = []byte(`{"type":"object"}`)
	}
	d.schemas = append(d.schemas, moved...)
}

package gateway_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
)

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

package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server/openapi"
)

// argument returns the schema of the only parameter of an operation.
func argument(t *testing.T, version, described, components string) string {
	t.Helper()
	p := provide(t, document(version, fmt.Sprintf(`
paths:
  /a:
    get:
      operationId: get
      parameters: [{name: p, in: query, schema: %s}]
components: {schemas: {%s}}
`, described, components)), openapi.Options{})
	input := tool(t, p, "get").InputSchema
	if _, err := schema.Compile(input, nil); err != nil {
		t.Errorf("%s: %v", input, err)
	}
	text := strings.TrimPrefix(string(input), `{"type":"object","properties":{"p":`)
	const end = `},"additionalProperties":false`
	at := strings.LastIndex(text, end)
	return text[:at] + strings.TrimSuffix(text[at+len(end):], "}")
}

func TestConvertSchema(t *testing.T) {
	for _, test := range []struct{ version, from, to string }{
		{"3.0.3", "{type: string, nullable: true}", `{"type":["string","null"]}`},
		{"3.0.3", "{type: string, nullable: true, enum: [a, b]}", `{"type":["string","null"],"enum":["a","b",null]}`},
		{"3.0.3", "{type: string, nullable: true, enum: [a, null]}", `{"type":["string","null"],"enum":["a",null]}`},
		{"3.0.3", "{nullable: true, allOf: [{type: string}]}", `{"anyOf":[{"allOf":[{"type":"string"}]},{"type":"null"}]}`},
		{"3.0.3", "{type: string, nullable: false}", `{"type":"string"}`},
		{"3.0.3", "{minimum: 1, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: false}", `{"exclusiveMinimum":1,"maximum":5}`},
		{"3.0.3", "{exclusiveMinimum: true}", `{}`},
		{"3.0.3", "{type: string, example: x, xml: {name: a}, externalDocs: {url: 'https://a.example'}, x-more: 1}", `{"type":"string","examples":["x"]}`},
		{"3.0.3", "{type: object, discriminator: {propertyName: kind}}", `{"type":"object"}`},
		{"3.0.3", "{type: any}", `{}`},
		{"3.0.3", "{type: string, pattern: '^(?!a)b'}", `{"type":"string"}`},
		{"3.0.3", "{type: string, pattern: '^b'}", `{"type":"string","pattern":"^b"}`},
		{"3.0.3", "{type: string, format: byte}", `{"type":"string","format":"byte"}`},
		{"3.0.3", "{type: string, format: binary}", `{"type":"string","contentEncoding":"base64"}`},
		{"3.0.3", "{type: integer, minimum: 9007199254740993, default: 9007199254740993}", `{"type":"integer","minimum":9007199254740993,"default":9007199254740993}`},
		{"3.0.3", "{properties: {b: {type: string}, a: {type: string}}, required: [b, b]}", `{"properties":{"b":{"type":"string"},"a":{"type":"string"}},"required":["b"]}`},
		{"3.0.3", "{properties: {id: {readOnly: true}, secret: {writeOnly: true}}, required: [id, secret]}", `{"properties":{"secret":{"writeOnly":true}},"required":["secret"]}`},
		{"3.0.3", "{properties: {$ref: {type: string}, nullable: {type: boolean}}}", `{"properties":{"$ref":{"type":"string"},"nullable":{"type":"boolean"}}}`},
		{"3.0.3", "{default: {nullable: true, $ref: x}, enum: [{$ref: y}]}", `{"default":{"nullable":true,"$ref":"x"},"enum":[{"$ref":"y"}]}`},
		{"3.0.3", "{allOf: []}", `{}`},
		{"3.0.3", "{oneOf: [{type: string, format: date}, {type: string, format: uuid}]}", `{"anyOf":[{"type":"string","format":"date"},{"type":"string","format":"uuid"}]}`},
		{"3.0.3", "{oneOf: [{type: string}], anyOf: [{minLength: 1}]}", `{"oneOf":[{"type":"string"}],"anyOf":[{"minLength":1}]}`},

		{"3.1.0", "{type: [string, 'null'], const: null}", `{"type":["string","null"],"const":null}`},
		{"3.1.0", "{exclusiveMinimum: 1, minimum: 0}", `{"exclusiveMinimum":1,"minimum":0}`},
		{"3.1.0", "{examples: [1, 2], example: 3}", `{"examples":[1,2]}`},
		{"3.1.0", "true", `true`},
		{"3.1.0", "{prefixItems: [{type: string}], items: false, unevaluatedItems: {}}", `{"prefixItems":[{"type":"string"}],"items":false,"unevaluatedItems":{}}`},
		{"3.1.0", "{if: {type: string}, then: {minLength: 1}, else: true, not: false}", `{"if":{"type":"string"},"then":{"minLength":1},"else":true,"not":false}`},
		{"3.1.0", "{patternProperties: {'^a': {type: string}}, additionalProperties: false}", `{"patternProperties":{"^a":{"type":"string"}},"additionalProperties":false}`},
		{"3.1.0", "{patternProperties: {'^(?=a)': {type: string}}, additionalProperties: false}", `{"patternProperties":{}}`},
		{"3.1.0", "{$id: 'https://x.example', $anchor: a, $comment: c, $schema: 'https://json-schema.org/draft/2020-12/schema', type: string}", `{"type":"string"}`},
		{"3.1.0", "{type: string, contentMediaType: image/png}", `{"type":"string","contentMediaType":"image/png","contentEncoding":"base64"}`},
		{"3.1.0", "{type: string, contentMediaType: image/png, contentEncoding: base64url}", `{"type":"string","contentMediaType":"image/png","contentEncoding":"base64url"}`},
		{"3.1.0", "{type: string, contentMediaType: text/html}", `{"type":"string","contentMediaType":"text/html"}`},
		{"3.1.0", "{dependentSchemas: {a: {required: [b]}}, dependentRequired: {a: [b]}}", `{"dependentSchemas":{"a":{"required":["b"]}},"dependentRequired":{"a":["b"]}}`},
	} {
		if got := argument(t, test.version, test.from, ""); got != test.to {
			t.Errorf("%s %s\n got %s\nwant %s", test.version, test.from, got, test.to)
		}
	}
}

func TestReferences(t *testing.T) {
	const node = "Node: {type: object, properties: {next: {$ref: '#/components/schemas/Node'}, leaf: {$ref: '#/components/schemas/Le~1af%20x'}}}, Le/af x: {type: string}"
	for _, test := range []struct{ version, from, components, to string }{
		{
			"3.0.3", "{$ref: '#/components/schemas/Node'}", node,
			`{"$ref":"#/$defs/Node"},"$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"},"leaf":{"type":"string"}}}}`,
		},
		{
			"3.0.3", "{$ref: '#/components/schemas/A', description: said here, maxLength: 3}", "A: {type: string}",
			`{"type":"string","description":"said here"}`,
		},
		{
			"3.1.0", "{$ref: '#/components/schemas/A', maxLength: 3}", "A: {type: string}",
			`{"type":"string","maxLength":3}`,
		},
		{
			"3.1.0", "{anyOf: [{$ref: '#/components/schemas/A/properties/x'}, {$ref: '#/components/schemas/B/properties/x'}]}",
			"A: {properties: {x: {type: string}}}, B: {properties: {x: {type: integer}}}",
			`{"anyOf":[{"type":"string"},{"type":"integer"}]}`,
		},
		{
			"3.1.0", "{$ref: '#/components/schemas/A/properties/x'}", "A: {$ref: '#/components/schemas/B'}, B: {properties: {x: {type: integer}}}",
			`{"type":"integer"}`,
		},
	} {
		if got := argument(t, test.version, test.from, test.components); got != test.to {
			t.Errorf("%s %s\n got %s\nwant %s", test.version, test.from, got, test.to)
		}
	}
}

func TestCircularSchema(t *testing.T) {
	p := provide(t, withBody("3.0.3", "application/json", "{$ref: '#/components/schemas/Tree'}", `
components:
  schemas:
    Tree: {type: object, required: [name], properties: {name: {type: string}, children: {type: array, items: {$ref: '#/components/schemas/Tree'}}}}`,
	), openapi.Options{BaseURL: serve(t, serveEcho)})
	arguments := `{"id":1,"name":"a","children":[{"name":"b","children":[{"name":"c"}]}]}`
	if got := echoed(t, p, "post", arguments).Body; got != `{"name":"a","children":[{"name":"b","children":[{"name":"c"}]}]}` {
		t.Errorf("the body is %s", got)
	}
	wantContains(t, callError(t, p, "post", `{"id":1,"name":"a","children":[{"children":[]}]}`), "/children/0", "name")
}

func TestReferenceErrors(t *testing.T) {
	for name, test := range map[string]struct{ from, want string }{
		"other document":      {"{$ref: 'other.yaml#/Pet'}", "other.yaml"},
		"network":             {"{$ref: 'http://127.0.0.1:1/pet.json'}", "external"},
		"missing":             {"{$ref: '#/components/schemas/None'}", "None"},
		"circle of schemas":   {"{$ref: '#/components/schemas/A'}", "openapi: "},
		"circle on the way":   {"{$ref: '#/components/schemas/A/properties/x'}", "openapi: "},
		"anchor":              {"{$ref: '#anchor'}", "anchor"},
		"pointer without end": {"{$ref: '#" + strings.Repeat("/a", 4000) + "'}", "openapi: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, withBody("3.1.0", "application/json", test.from, `
components: {schemas: {A: {$ref: '#/components/schemas/B'}, B: {$ref: '#/components/schemas/A'}}}`), openapi.Options{})
			wantContains(t, got, test.want)
		})
	}
}

func TestOutputSchemas(t *testing.T) {
	for _, test := range []struct{ name, responses, want string }{
		{
			"one success", "{'200': {description: ok, content: {application/json: {schema: {type: object, properties: {a: {type: string, example: x, writeOnly: true}, b: {readOnly: true}}}}}}}",
			`{"type":"object","properties":{"b":{"readOnly":true}}}`,
		},
		{
			"reference is opened", "{'2XX': {$ref: '#/components/responses/Pet'}, default: {description: error}}",
			`{"type":"object","properties":{"friend":{"$ref":"#/$defs/Pet"}},"$defs":{"Pet":{"type":"object","properties":{"friend":{"$ref":"#/$defs/Pet"}}}}}`,
		},
		{"list", "{'200': {description: ok, content: {application/hal+json: {schema: {type: array}}}}}", `{"type":"array"}`},
		{"two successes", "{'200': {description: ok, content: {application/json: {schema: {type: object}}}}, '204': {description: none}}", ""},
		{"text as well", "{'200': {description: ok, content: {application/json: {schema: {type: object}}, text/csv: {}}}}", ""},
		{"no schema", "{'200': {description: ok, content: {application/json: {}}}}", ""},
		{"anything", "{'200': {description: ok, content: {application/json: {schema: {}}}}}", ""},
		{"failures only", "{'404': {description: none, content: {application/json: {schema: {type: object}}}}}", ""},
		{"too large", "{'200': {description: ok, content: {application/json: {schema: {description: x, enum: ['" + strings.Repeat("x", 70<<10) + "']}}}}}", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := document("3.1.0", "paths: {/a: {get: {operationId: get, responses: "+test.responses+`}}}
components:
  schemas: {Pet: {type: object, properties: {friend: {$ref: '#/components/schemas/Pet'}}}}
  responses: {Pet: {description: a pet, content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}}
`)
			if got := string(tool(t, provide(t, text, openapi.Options{}), "get").OutputSchema); got != test.want {
				t.Errorf("the schema is\n%s, want\n%s", got, test.want)
			}
			if got := tool(t, provide(t, text, openapi.Options{OmitOutputSchemas: true}), "get").OutputSchema; got != nil {
				t.Errorf("with OmitOutputSchemas the schema is %s", got)
			}
		})
	}
}

func TestLongDescriptions(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	p := provide(t, document("3.0.3", fmt.Sprintf(`
paths:
  /a:
    get:
      operationId: get
      summary: %s
      description: %[1]s
      parameters: [{name: p, in: query, description: %[1]s, schema: {properties: {x: {description: %[1]s}}}}]
`, long)), openapi.Options{})
	got := tool(t, p, "get")
	if len(got.Description) > 4<<10 || len(got.Title) > 256 || !strings.HasSuffix(got.Description, "é…") {
		t.Errorf("the description has %d bytes, the title %d", len(got.Description), len(got.Title))
	}
	if len(got.InputSchema) > 3<<10 || !json.Valid(got.InputSchema) {
		t.Errorf("the schema has %d bytes", len(got.InputSchema))
	}
}

func TestAnnotations(t *testing.T) {
	p := provide(t, document("3.0.3", `
paths: {/a: {get: {}, put: {}, post: {}, patch: {}, delete: {}, head: {}, options: {}, trace: {}}}
`), openapi.Options{Include: []string{"HEAD", "options", "Trace"}})
	got := map[string]string{}
	for _, name := range toolNames(p) {
		encoded, err := json.Marshal(tool(t, p, name).Annotations)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(encoded)
	}
	want := map[string]string{
		"get_a": `{"readOnlyHint":true}`, "head_a": `{"readOnlyHint":true}`, "options_a": `{"readOnlyHint":true}`, "trace_a": `{"readOnlyHint":true}`,
		"put_a": `{"idempotentHint":true}`, "delete_a": `{"destructiveHint":true,"idempotentHint":true}`, "post_a": "null", "patch_a": "null",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An instanceMaker creates minimal instances of the schemas in one document. It supports only the
// common keywords.
type instanceMaker struct{ defs map[string]*instanceSchema }

// An instanceSchema has the keywords that an instanceMaker supports.
type instanceSchema struct {
	Ref        string                     `json:"$ref"`
	Type       any                        `json:"type"`
	Const      json.RawMessage            `json:"const"`
	Enum       []json.RawMessage          `json:"enum"`
	Default    json.RawMessage            `json:"default"`
	Examples   []json.RawMessage          `json:"examples"`
	Properties map[string]*instanceSchema `json:"properties"`
	Required   []string                   `json:"required"`
	Items      *instanceSchema            `json:"items"`
	MinItems   int                        `json:"minItems"`
	MinLength  int                        `json:"minLength"`
	Pattern    string                     `json:"pattern"`
	Minimum    json.RawMessage            `json:"minimum"`
	AnyOf      []*instanceSchema          `json:"anyOf"`
	OneOf      []*instanceSchema          `json:"oneOf"`
	AllOf      []*instanceSchema          `json:"allOf"`
	Defs       map[string]*instanceSchema `json:"$defs"`
}

// UnmarshalJSON decodes true as a schema without keywords.
func (d *instanceSchema) UnmarshalJSON(text []byte) error {
	type fields instanceSchema
	if string(text) == "true" || string(text) == "false" {
		return nil
	}
	return json.Unmarshal(text, (*fields)(d))
}

func instanceOf(t *testing.T, schema json.RawMessage) json.RawMessage {
	t.Helper()
	var root instanceSchema
	if err := json.Unmarshal(schema, &root); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal((&instanceMaker{root.Defs}).instance(&root, 0))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (m *instanceMaker) instance(d *instanceSchema, depth int) any {
	d = m.resolve(d, depth)
	for _, list := range [][]json.RawMessage{{d.Const}, d.Enum, {d.Default}, d.Examples} {
		for _, one := range list {
			if one != nil && string(one) != "null" && depth > 0 {
				return one
			}
		}
	}
	switch m.kind(d) {
	case "object":
		return m.object(d, depth)
	case "array":
		list := []any{}
		for range max(d.MinItems, 1) {
			list = append(list, m.instance(d.Items, depth+1))
		}
		return list
	case "integer", "number":
		if d.Minimum != nil {
			return d.Minimum
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return m.text(d)
}

// resolve follows references and merges the parts of a composed schema.
func (m *instanceMaker) resolve(d *instanceSchema, depth int) *instanceSchema {
	if d == nil || depth > 30 {
		return &instanceSchema{}
	}
	if d.Ref != "" {
		return m.resolve(m.defs[strings.TrimPrefix(d.Ref, "#/$defs/")], depth+1)
	}
	made := *d
	made.Properties = maps.Clone(d.Properties)
	parts := d.AllOf
	for _, alternatives := range [][]*instanceSchema{d.AnyOf, d.OneOf} {
		if len(alternatives) > 0 {
			parts = append(slices.Clip(parts), alternatives[0])
		}
	}
	for _, part := range parts {
		part = m.resolve(part, depth+1)
		if made.Properties == nil {
			made.Properties = map[string]*instanceSchema{}
		}
		maps.Copy(made.Properties, part.Properties)
		made.Required = append(slices.Clip(made.Required), part.Required...)
		if made.Type == nil {
			made.Type, made.Items = part.Type, part.Items
		}
		if made.Enum == nil {
			made.Enum = part.Enum
		}
		made.Pattern += part.Pattern
	}
	return &made
}

func (m *instanceMaker) kind(d *instanceSchema) string {
	kind := fmt.Sprint(d.Type)
	if list, several := d.Type.([]any); several {
		kind = fmt.Sprint(list[0])
	}
	if d.Type == nil && len(d.Properties)+len(d.Required) > 0 {
		kind = "object"
	}
	return kind
}

func (m *instanceMaker) object(d *instanceSchema, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range d.Required {
		object[name] = m.instance(d.Properties[name], depth+1)
	}
	if len(object) > 0 || depth != 1 {
		return object
	}
	for name, property := range d.Properties { // an empty object cannot be part of a path
		object[name] = m.instance(property, depth+1)
	}
	if len(object) == 0 {
		object["x"] = "x"
	}
	return object
}

// text returns the first of some texts that matches a pattern.
func (m *instanceMaker) text(d *instanceSchema) string {
	pattern, err := regexp.Compile(d.Pattern)
	candidates := []string{
		strings.Repeat("x", max(d.MinLength, 4)), "stable", "/branches/stable/categories/guides/x", "0123456789abcdef01234567",
		"0123456789abcdef0123456789abcdef01234567", "1", "2030-01-01", "2030-01-01T00:00:00Z", "a@b.example", "https://a.example/b", "x.json",
	}
	for _, candidate := range candidates {
		if err == nil && pattern.MatchString(candidate) {
			return candidate
		}
	}
	return candidates[0]
}

package llm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/cputest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// check returns what an API with these rules refuses in a schema.
func (r *rules) check(schema json.RawMessage, checkNames bool) (refused []string) {
	refuse := func(format string, args ...any) {
		refused = append(refused, r.api+" refuses "+fmt.Sprintf(format, args...))
	}
	root, err := jsonscan.ReadObject(schema)
	if err != nil {
		return []string{r.api + " refuses what is not an object"}
	}
	if kind := root.Get("type"); kind == nil || !jsonscan.KeyIs(kind, "object") {
		refuse("the type %s of the root", kind)
	}
	if properties := root.Get("properties"); r.properties && (properties == nil || jsonscan.KindOf(properties) != jsonscan.Object) {
		refuse("a root without properties")
	}
	for _, keyword := range r.forbidden {
		if root.Get(keyword) != nil {
			refuse("%s at the root", keyword)
		}
	}
	if properties, err := jsonscan.ReadObject(root.Get("properties")); err == nil && checkNames && r.names != "" {
		for m := range properties.All() {
			if !regexp.MustCompile(r.names).MatchString(m.Name()) {
				refuse("the name %q", m.Name())
			}
		}
	}
	var all any
	if err := json.Unmarshal(schema, &all); err != nil {
		return []string{err.Error()}
	}
	defs, _ := all.(map[string]any)["$defs"].(map[string]any)
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				walk(item)
			}
		case map[string]any:
			if ref, ok := value["$ref"].(string); ok {
				name, anchored := strings.CutPrefix(ref, "#/$defs/")
				if r.anchored && !anchored || defs[name] == nil {
					refuse("the reference %s", ref)
				}
			}
			if types := strings.Fields(strings.Trim(fmt.Sprint(value["type"]), "[]")); r.items && value["items"] == nil && slices.Contains(types, "array") {
				refuse("an array without items")
			}
			for _, part := range value {
				walk(part)
			}
		}
	}
	walk(all)
	return refused
}

// refusedBy returns what APIs refuse in the definition of a tool in the format of Anthropic or OpenAI.
func refusedBy(t *testing.T, input string) (openAI, anthropic string, refused []string) {
	t.Helper()
	tools := []mcp.Tool{{Name: "t", InputSchema: json.RawMessage(input)}}
	var function struct {
		Function struct{ Parameters json.RawMessage }
	}
	if err := json.Unmarshal(OpenAITools(tools)[0], &function); err != nil {
		t.Fatal(err)
	}
	var other struct {
		Schema json.RawMessage `json:"input_schema"`
	}
	if err := json.Unmarshal(AnthropicTools(tools)[0], &other); err != nil {
		t.Fatal(err)
	}
	for _, r := range apiRules() {
		refused = append(refused, r.check(function.Function.Parameters, false)...)
		refused = append(refused, r.check(other.Schema, true)...)
	}
	return string(function.Function.Parameters), string(other.Schema), refused
}

type node struct {
	Name string  `json:"name"`
	Kids []*node `json:"kids,omitempty"`
}

func TestAPIsAcceptSchemas(t *testing.T) {
	recursive, err := schema.For[node]()
	if err != nil {
		t.Fatal(err)
	}
	const none = `{"type":"object","properties":{}}`
	for name, test := range map[string]struct{ input, want string }{
		"nothing":               {``, none},
		"empty":                 {`{}`, `{"type":"object","properties":{}}`},
		"true":                  {`true`, none},
		"null":                  {`null`, none},
		"text":                  {`"x"`, none},
		"no JSON":               {`{`, none},
		"a string":              {`{"type":"string"}`, none},
		"a list":                {`{"type":"array","items":{}}`, none},
		"only $schema":          {`{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{}}`},
		"no type":               {`{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		"two types":             {`{"type":["object","null"],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		"usual":                 {`{ "type" : "object" , "properties":{"a":{"const":1e2}},"required":["a"]}`, `{ "type" : "object" , "properties":{"a":{"const":1e2}},"required":["a"]}`},
		"null properties":       {`{"type":"object","properties":null}`, none},
		"required is no list":   {`{"type":"object","properties":{},"required":"x"}`, none},
		"anyOf":                 {`{"anyOf":[{"type":"object","properties":{"a":{},"c":{}},"required":["a","c"]},{"properties":{"b":{},"c":{}},"required":["b","c"]}]}`, `{"type":"object","properties":{"a":{},"c":{},"b":{}},"required":["c"]}`},
		"oneOf beside":          {`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`},
		"allOf":                 {`{"allOf":[{"$ref":"#/$defs/A"},{"properties":{"b":{}},"required":["b"]}],"$defs":{"A":{"properties":{"a":{}},"required":["a"]}}}`, `{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`},
		"nested anyOf":          {`{"allOf":[{"anyOf":[{"properties":{"a":{}}}]}]}`, `{"type":"object","properties":{"a":{}}}`},
		"enum and not":          {`{"type":"object","properties":{},"enum":[{}],"not":{"required":["a"]}}`, none},
		"array without items":   {`{"type":"object","properties":{"a":{"type":"array"},"b":{"items":{"type":["array","null"]}}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"items":{"type":["array","null"],"items":{}}}}}`},
		"reference at the root": {`{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"a":{"type":"string"}}}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"recursion":             {`{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}}}`, `{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/Root"}}},"$defs":{"Root":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/Root"}}}}}}`},
		"recursive type":        {string(recursive), string(recursive)},
		"missing definition":    {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"b":{"type":"string"},"c":{"type":"array"}},"required":["b"]}`, `{"type":"object","properties":{"a":{},"b":{"type":"string"},"c":{"type":"array","items":{}}},"required":["b"]}`},
		"anchor":                {`{"type":"object","properties":{"a":{"$ref":"#x"}},"$defs":{"A":{"$anchor":"x"}}}`, `{"type":"object","properties":{"a":{}}}`},
		"another document":      {`{"$ref":"https://example.com/x"}`, none},
	} {
		openAI, anthropic, refused := refusedBy(t, test.input)
		if len(refused) > 0 {
			t.Errorf("%s: %s", name, strings.Join(refused, "; "))
		}
		for _, got := range []string{openAI, anthropic} {
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
		}
	}
}

func TestAnthropicNames(t *testing.T) {
	openAI, anthropic, refused := refusedBy(t, `{"type":"object","properties":{"$filter":{},"a b":{},"c":{}},"required":["a b","c"]}`)
	if want := `{"type":"object","properties":{"c":{}},"required":["c"]}`; anthropic != want || len(refused) > 0 {
		t.Errorf("got %s, %q, want %s", anthropic, refused, want)
	}
	if want := `{"type":"object","properties":{"$filter":{},"a b":{},"c":{}},"required":["a b","c"]}`; openAI != want {
		t.Errorf("got %s, want %s", openAI, want)
	}
}

// The time grows linearly with the number of required names.
func TestManyRequiredNames(t *testing.T) {
	for name, format := range map[string]string{
		"of one branch":      `{"allOf":[{"required":[%[1]s]}]}`,
		"of all branches":    `{"anyOf":[{"required":[%[1]s]},{"required":[%[1]s]}]}`,
		"of nested branches": `{"required":[%[1]s],"allOf":[%[2]s]}`,
	} {
		cputest.WantLinear(t, name, 2000, func(n int) {
			names, branches := make([]string, n), make([]string, n)
			for i := range n {
				names[i], branches[i] = fmt.Sprintf(`"name%d"`, i), fmt.Sprintf(`{"anyOf":[{"required":["name%d"]}]}`, i)
			}
			text := fmt.Sprintf(format+"%.0[2]s", strings.Join(names, ","), strings.Join(branches, ","))
			got := parameters(&mcp.Tool{InputSchema: json.RawMessage(text)}, nil)
			var root struct{ Required []string }
			if err := json.Unmarshal(got, &root); err != nil || len(root.Required) != n {
				t.Errorf("%s: %d names are required, want %d: %v", name, len(root.Required), n, err)
			}
		})
	}
}

// The checks find what they are for.
func TestRules(t *testing.T) {
	for _, r := range apiRules() {
		if r.source == "" {
			t.Errorf("%s has no source", r.api)
		}
		for _, bad := range []string{`true`, `{}`, `{"type":"string","properties":{}}`, `{"type":"object","properties":{},"anyOf":[]}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}`} {
			if len(r.check(json.RawMessage(bad), true)) == 0 {
				t.Errorf("%s: %s is accepted", r.api, bad)
			}
		}
	}
}

package toolschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/cputest"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/toolschema"
	"github.com/dovetail-go/dovetail/schema"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestInline(t *testing.T) {
	unchanged := func(schema string) [2]string { return [2]string{schema, schema} }
	for name, test := range map[string][2]string{
		"nothing":               unchanged(`{"type":"object", "properties":{"a":{"const":1e2}}}`),
		"a definition":          {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"},"B":{}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"older definitions":     {`{"properties":{"a":{"$ref":"#/definitions/A"}},"definitions":{"A":{"type":"string"}}}`, `{"properties":{"a":{"type":"string"}}}`},
		"twice":                 {`{"items":{"$ref":"#/$defs/A"},"not":{"$ref":"#/$defs/A"},"$defs":{"A":{"type":"string"}}}`, `{"items":{"type":"string"},"not":{"type":"string"}}`},
		"annotations":           {`{"items":{"$ref":"#/$defs/A","description":"x"},"$defs":{"A":{"description":"y","type":"string"}}}`, `{"items":{"description":"x","type":"string"}}`},
		"other keywords":        {`{"items":{"$ref":"#/$defs/A","maxLength":3},"$defs":{"A":{"type":"string"}}}`, `{"items":{"type":"string","maxLength":3}}`},
		"keywords of both":      unchanged(`{"items":{"$ref":"#/$defs/A","maxLength":3},"$defs":{"A":{"maxLength":4}}}`),
		"dependent keywords":    unchanged(`{"items":{"$ref":"#/$defs/A","additionalProperties":false},"$defs":{"A":{"properties":{"a":{}}}}}`),
		"dependent at the root": {`{"$ref":"#/$defs/A","additionalProperties":false,"$defs":{"A":{"type":"object","properties":{"a":{}}}}}`, `{"additionalProperties":false,"type":"object","allOf":[{"type":"object","properties":{"a":{}}}]}`},
		"draft-07":              {`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"$ref":"#/definitions/A","title":"x","maxLength":3},"definitions":{"A":{"type":"string"}}}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"string","title":"x"}}`},
		"draft-07 at the root":  {`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/A","maxLength":3,"definitions":{"A":{"type":"string"}}}`, `{"type":"string","$schema":"http://json-schema.org/draft-07/schema#"}`},
		"dependencies":          {`{"items":{"$ref":"#/definitions/A"},"dependencies":{"a":["b"],"b":{"$ref":"#/definitions/A"}},"definitions":{"A":{"type":"string"}}}`, `{"items":{"type":"string"},"dependencies":{"a":["b"],"b":{"type":"string"}}}`},
		"keywords beside true":  {`{"items":{"$ref":"#/$defs/A","maxLength":3},"$defs":{"A":true}}`, `{"items":{"maxLength":3}}`},
		"in lists":              {`{"anyOf":[{"$ref":"#/$defs/A"},true],"items":[{"$ref":"#/$defs/A"}],"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"type":"string"}}}`, `{"anyOf":[{"type":"string"},true],"items":[{"type":"string"}]}`},
		"of true":               {`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":true}}`, `{"items":true}`},
		"a property":            {`{"properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`},
		"a property named $ref": {`{"properties":{"$ref":{"$ref":"#/$defs/A"}},"default":{"$ref":"#/x"},"$defs":{"A":{"const":{"$ref":"#/y"}}}}`, `{"properties":{"$ref":{"const":{"$ref":"#/y"}}},"default":{"$ref":"#/x"}}`},
		"root":                  {`{"type":"object","properties":{"kids":{"items":{"$ref":"#"}}}}`, `{"type":"object","properties":{"kids":{"items":{"$ref":"#/$defs/Root"}}},"$defs":{"Root":{"type":"object","properties":{"kids":{"items":{"$ref":"#/$defs/Root"}}}}}}`},
		"reference at the root": {`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}}}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}}}`},
		"recursive": {`{"items":{"$ref":"#/definitions/A"},"definitions":{"A":{"items":{"$ref":"#/definitions/B"}},"B":{"items":{"$ref":"#/definitions/A"},"not":{"$ref":"#/definitions/C"}},"C":{"type":"null"}}}`,
			`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"items":{"$ref":"#/$defs/B"}},"B":{"items":{"$ref":"#/$defs/A"},"not":{"type":"null"}}}}`},
		"names":            {`{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/definitions/a"}],"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}},"definitions":{"a":{"not":{"$ref":"#/definitions/a"}}}}`, `{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a_2"}],"$defs":{"a":{"items":{"$ref":"#/$defs/a"}},"a_2":{"not":{"$ref":"#/$defs/a_2"}}}}`},
		"anchor":           {`{"items":{"$ref":"#a"},"$defs":{"A":{"$anchor":"a"}}}`, ""},
		"id":               {`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"$id":"x:y"}}}`, ""},
		"id of the root":   {`{"$id":"x:y","items":{"$ref":"#"}}`, `{"$id":"x:y","items":{"$ref":"#/$defs/Root"},"$defs":{"Root":{"items":{"$ref":"#/$defs/Root"}}}}`},
		"another document": {`{"items":{"$ref":"x:y#/$defs/A"}}`, ""},
		"missing":          {`{"items":{"$ref":"#/$defs/A"}}`, ""},
		"a loop":           {`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"$ref":"#/$defs/A"}}}`, `{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"$ref":"#/$defs/A"}}}`},
		"no JSON":          {`{"$ref":`, ""},
		"a list":           unchanged(`["$ref"]`),
	} {
		got, err := toolschema.Inline(json.RawMessage(test[0]), toolschema.MaxInlined)
		if test[1] == "" && err == nil || test[1] != "" && string(got) != test[1] {
			t.Errorf("%s: got\n%s, %v, want\n%s", name, got, err, test[1])
		}
	}
}

// Large and hostile schemas keep their references.
func TestInlineLimits(t *testing.T) {
	doubling := `{"$ref":"#/$defs/a40","$defs":{"a0":{"type":"string"}`
	ring := `{"$ref":"#/$defs/a0","$defs":{"z":{}`
	for i := range 40 {
		doubling += fmt.Sprintf(`,"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	for i := range 5000 {
		ring += fmt.Sprintf(`,"a%d":{"items":{"$ref":"#/$defs/a%d"}}`, i, (i+1)%5000)
	}
	for name, schema := range map[string]string{
		"doubling": doubling + "}}",
		"ring":     ring + "}}",
		"large":    `{"items":{"$ref":"#/$defs/A"},"not":{"$ref":"#/$defs/A"},"$defs":{"A":{"description":"` + strings.Repeat("x", toolschema.MaxInlined) + `"}}}`,
	} {
		got, err := toolschema.Inline(json.RawMessage(schema), toolschema.MaxInlined)
		if err == nil && (len(got) > 2*len(schema) || !strings.Contains(string(got), `"$ref":"#/$defs/`)) {
			t.Errorf("%s: got %.200s", name, got)
		}
		t.Logf("%s: %d bytes become %d, %v", name, len(schema), len(got), err)
	}
}

// combinable are keywords that can be beside a reference or in its target. Many depend on each other.
var combinable = []string{
	`"type":"object"`, `"type":["array","string"]`, `"maxProperties":1`, `"minProperties":2`, `"required":["a"]`, `"required":["b"]`,
	`"properties":{"a":{"type":"string"}}`, `"properties":{"b":true}`, `"patternProperties":{"^a":true}`, `"patternProperties":{"^b":{"type":"integer"}}`,
	`"additionalProperties":false`, `"additionalProperties":{"type":"string"}`, `"propertyNames":{"enum":["a"]}`, `"dependentSchemas":{"a":{"properties":{"b":true}}}`,
	`"dependentRequired":{"a":["b"]}`, `"dependencies":{"a":["b"]}`,
	`"unevaluatedProperties":false`, `"unevaluatedProperties":{"type":"string"}`, `"unevaluatedItems":false`, `"unevaluatedItems":{"type":"string"}`,
	`"items":{"type":"string"}`, `"items":false`, `"items":[{"type":"string"}]`, `"prefixItems":[{"type":"integer"}]`, `"prefixItems":[true,true]`,
	`"additionalItems":false`, `"contains":{"type":"string"}`, `"minContains":0`, `"minContains":2`, `"maxContains":1`,
	`"maxItems":1`, `"uniqueItems":true`, `"if":{"required":["a"]}`, `"then":{"properties":{"b":true}}`, `"then":false`, `"else":false`,
	`"allOf":[{"properties":{"a":true}}]`, `"anyOf":[{"required":["a"],"properties":{"a":true}},{"type":"array"}]`, `"oneOf":[{"prefixItems":[true]},{"type":"object"}]`,
	`"not":{"required":["b"]}`, `"enum":[{},{"a":"x"},["x"]]`, `"const":{}`, `"$ref":"#/$defs/B"`, `"maxLength":1`, `"title":"x"`, `"x-unknown":1`,
	`"$schema":"http://json-schema.org/draft-07/schema#"`, `"$schema":"https://json-schema.org/draft/2020-12/schema"`,
}

var combinedInstances = []string{
	`{}`, `{"a":"x"}`, `{"a":1}`, `{"b":1}`, `{"b":"x"}`, `{"a":"x","b":1}`, `{"a":1,"b":"x"}`, `{"c":1}`, `{"a":"x","c":"y"}`, `{"c":"x","d":"y"}`,
	`[]`, `["x"]`, `[1]`, `["x","y"]`, `[1,"x"]`, `["x",1]`, `[1,2]`, `[1,"x","y"]`, `[1,2,3]`, `["x","x"]`, `"x"`, `"xx"`, `1`, `null`,
}

// verdicts returns a letter for each instance that a schema accepts, or an empty text if the schema cannot be compiled.
func verdicts(t *testing.T, text string) string {
	validator, err := schema.Compile(json.RawMessage(text), nil)
	if err != nil {
		return ""
	}
	accepted := "compiled: "
	for i, instance := range combinedInstances {
		if validator.Validate(t.Context(), []byte(instance)) == nil {
			accepted += string(rune('a' + i))
		}
	}
	return accepted
}

// The rewritten schema accepts the same instances, whatever keywords are beside a reference and in its target.
func TestInlineAcceptsTheSame(t *testing.T) {
	places := map[string]string{
		"root":     `{DIALECT"$ref":"#/$defs/A",SIBLING,"$defs":{"A":TARGET,"B":{"properties":{"a":true}}}}`,
		"branches": `{DIALECT"allOf":[{"$ref":"#/$defs/A",SIBLING}],"unevaluatedProperties":{"type":"integer"},"$defs":{"A":TARGET,"B":{"properties":{"a":true}}}}`,
	}
	targets := []string{"true", "false"}
	for i, a := range combinable {
		targets = append(targets, "{"+a+"}")
		if b := combinable[(i+1)%len(combinable)]; nameOf(a) != nameOf(b) {
			targets = append(targets, "{"+a+","+b+"}")
		}
	}
	targets = append(targets, `{"unevaluatedItems":false,"contains":{"type":"string"}}`, `{"unevaluatedProperties":false,"if":{"required":["a"]}}`)
	compiled, refused, failures := 0, 0, 0
	for _, dialect := range []string{"", `"$schema":"http://json-schema.org/draft-07/schema#",`} {
		for name, place := range places {
			if dialect != "" && name != "root" {
				continue // the keywords beside a reference have no meaning there
			}
			for i, target := range targets {
				for j, sibling := range combinable {
					if (i+j)%3 != 0 {
						continue // a third of the pairs, with each target and each sibling
					}
					if strings.HasPrefix(sibling, `"$ref"`) || dialect != "" && strings.HasPrefix(sibling, `"$schema"`) {
						continue // twice in one object
					}
					if dialect != "" && nameOf(sibling) == `"const"` {
						continue // the general validator does not ignore it beside a reference of draft-07
					}
					text := strings.NewReplacer("DIALECT", dialect, "SIBLING", sibling, "TARGET", target).Replace(place)
					want := verdicts(t, text)
					if want == "" {
						continue
					}
					compiled++
					inlined, err := toolschema.Inline(json.RawMessage(text), toolschema.MaxInlined)
					if err != nil {
						refused++
						continue
					}
					if got := verdicts(t, string(inlined)); got != want {
						if failures++; failures <= 20 {
							t.Errorf("%s: the schema\n%s becomes\n%s\nwhich accepts %q, want %q", name, text, inlined, got, want)
						}
					}
				}
			}
		}
	}
	t.Logf("%d schemas compile, %d are refused, %d differ", compiled, refused, failures)
	if compiled < 1000 || refused > compiled/20 {
		t.Errorf("%d schemas compile, %d are refused", compiled, refused)
	}
}

func nameOf(member string) string {
	name, _, _ := strings.Cut(member, ":")
	return name
}

// The time grows linearly with the size of a schema.
func TestInlineCost(t *testing.T) {
	list := func(n int, format string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(format, "N", fmt.Sprint(i))
		}
		return strings.Join(items, ",")
	}
	for name, schema := range map[string]func(n int) string{
		"siblings": func(n int) string {
			return `{"items":{"$ref":"#/$defs/A",` + list(n, `"xN":1`) + `},"$defs":{"A":{` + list(n, `"yN":1`) + `}}}`
		},
		"siblings at the root": func(n int) string {
			return `{"$ref":"#/$defs/A",` + list(n, `"xN":1`) + `,"$defs":{"A":{` + list(n, `"yN":1`) + `}}}`
		},
		"references that cannot be merged": func(n int) string {
			return `{"allOf":[` + list(n, `{"$ref":"#/$defs/A","y0":2}`) + `],"$defs":{"A":{` + list(n, `"yN":1`) + `}}}`
		},
		"equal names": func(n int) string {
			refs, defs := make([]string, n), make([]string, n)
			for i := range n {
				refs[i] = fmt.Sprintf(`{"$ref":"#/$defs/%c"}`, 0x4e00+i)
				defs[i] = fmt.Sprintf(`"%c":{"items":{"$ref":"#/$defs/%c"}}`, 0x4e00+i, 0x4e00+i)
			}
			return `{"anyOf":[` + strings.Join(refs, ",") + `],"$defs":{` + strings.Join(defs, ",") + `}}`
		},
	} {
		cputest.WantLinear(t, name, 250, func(n int) {
			text := schema(n)
			if got, err := toolschema.Inline(json.RawMessage(text), 1<<20); err != nil || len(got) > 2*len(text) {
				t.Errorf("%s: %d bytes become %d, %v", name, len(text), len(got), err)
			}
		})
	}
}

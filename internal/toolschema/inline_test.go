package toolschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/toolschema"
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

package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/schema"
)

// Schemas up to each limit are accepted, and those beyond it are a CompileError.
func TestLimitsOfSchemas(t *testing.T) {
	nested := func(keyword string, n int) string {
		return strings.Repeat(`{"`+keyword+`":`, n) + `{}` + strings.Repeat("}", n)
	}
	sized := func(n int) string {
		const start, end = `{"title":"`, `"}`
		return start + strings.Repeat("x", n-len(start)-len(end)) + end
	}
	definitions := func(n int) string { return `{"$defs":{` + joined(n, `"%d":{}`) + `}}` }
	pattern := func(n int) string { return `{"pattern":"` + strings.Repeat("x", n) + `"}` }
	repeated := func(n int) string { return `{"pattern":"` + strings.Repeat("(.{1000})", n/2000) + `"}` }
	patterns := func(n int) string {
		return `{"properties":{` + joined(n/2000, `"%[1]d":{"pattern":"%[1]d.{990}"}`) + `}}`
	}
	for name, test := range map[string]struct {
		within, beyond string
	}{
		"MaxSchemaBytes":          {sized(schema.MaxSchemaBytes), sized(schema.MaxSchemaBytes + 1)},
		"MaxSchemaDepth":          {nested("items", schema.MaxSchemaDepth), nested("items", schema.MaxSchemaDepth+1)},
		"MaxSchemaDepth, general": {nested("not", schema.MaxSchemaDepth), nested("not", schema.MaxSchemaDepth+1)},
		"MaxSubschemas":           {definitions(schema.MaxSubschemas - 1), definitions(schema.MaxSubschemas)},
		"MaxSubschemas, general":  {`{"not":` + definitions(schema.MaxSubschemas-10) + `}`, `{"not":` + definitions(schema.MaxSubschemas) + `}`},
		"MaxPatternBytes":         {pattern(schema.MaxPatternSize - 10), pattern(schema.MaxPatternBytes + 1)},
		"MaxPatternSize":          {repeated(schema.MaxPatternSize - 2000), repeated(schema.MaxPatternSize + 2000)},
		"MaxPatternsSize":         {patterns(schema.MaxPatternsSize - 5000), patterns(schema.MaxPatternsSize + 10_000)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schema.Compile(json.RawMessage(test.within), nil); err != nil {
				t.Errorf("within the limit: %.300v", err)
			}
			_, err := schema.Compile(json.RawMessage(test.beyond), nil)
			if _, ok := errors.AsType[*schema.CompileError](err); !ok || len(err.Error()) > 1000 {
				t.Errorf("beyond the limit: got %.300v, want a CompileError", err)
			}
		})
	}
}

// Instances up to each limit are accepted, and those beyond it are a BudgetError.
func TestLimitsOfInstances(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	defaults := func(n int) string { return "[" + strings.Repeat("{},", n/1000) + "{}]" }
	for name, test := range map[string]struct {
		schema         string
		within, beyond string
	}{
		"DefaultMaxWork":             {`{"items":{"pattern":"^(a+)+b$"}}`, `["` + strings.Repeat("a", 100_000) + `"]`, `["` + strings.Repeat("a", 30<<20) + `"]`},
		"DefaultMaxMemory":           {`{"not":{"type":"null"}}`, "[" + strings.Repeat("0,", 900_000) + "0]", "[" + strings.Repeat("0,", 2_000_000) + "0]"},
		"MaxDefaults":                {`{"items":{"type":"object","properties":{"a":{"default":"` + strings.Repeat("x", 990) + `"}}}}`, defaults(schema.MaxDefaults - 5000), defaults(schema.MaxDefaults + 5000)},
		"MaxDefaults, digits":        {`{"items":{"type":"integer"}}`, "[" + strings.Repeat("1e399,", 600) + "1]", "[" + strings.Repeat("1e399,", 700) + "1]"},
		"MaxNumberDigits":            {`{"minimum":0}`, strings.Repeat("1", schema.MaxNumberDigits), strings.Repeat("1", schema.MaxNumberDigits+1)},
		"MaxNumberDigits, general":   {`{"not":{"type":"null"}}`, strings.Repeat("1", schema.MaxNumberDigits), strings.Repeat("1", schema.MaxNumberDigits+1)},
		"MaxNumberExponent":          {`{"minimum":-1}`, "1e400", "1e401"},
		"MaxNumberExponent, -":       {`{"minimum":-1}`, "1e-400", "1e-401"},
		"MaxNumberExponent, general": {`{"not":{"type":"null"}}`, "1e400", "1e401"},
		"MaxGeneralDepth":            {`{"not":{"type":"null"}}`, nested(schema.MaxGeneralDepth), nested(schema.MaxGeneralDepth + 1)},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := schema.NewDecoder[json.RawMessage](&schema.DecoderOptions{Schema: json.RawMessage(test.schema)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Decode(t.Context(), json.RawMessage(test.within))
			if _, beyond := errors.AsType[*schema.BudgetError](err); beyond {
				t.Errorf("within the limit: %.300v", err)
			}
			_, err = d.Decode(t.Context(), json.RawMessage(test.beyond))
			if _, ok := errors.AsType[*schema.BudgetError](err); !ok || len(err.Error()) > 1000 {
				t.Errorf("beyond the limit: got %.300v, want a BudgetError", err)
			}
		})
	}
}

package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/pattern"
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

// The limits equal the table in the documentation of the package.
func TestLimitsAreDocumented(t *testing.T) {
	documentation, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]float64{}
	for _, row := range regexp.MustCompile(`(?m)^//\t([a-z ]+?) +([0-9,e]+)( [KM]i)? `).FindAllStringSubmatch(string(documentation), -1) {
		value, err := strconv.ParseFloat(strings.ReplaceAll(row[2], ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		documented[row[1]] = value * map[string]float64{"": 1, " Ki": 1 << 10, " Mi": 1 << 20}[row[3]]
	}
	limits := map[string]float64{
		"size of a schema":     schema.MaxSchemaBytes,
		"depth of a schema":    schema.MaxSchemaDepth,
		"subschemas":           schema.MaxSubschemas,
		"length of a pattern":  schema.MaxPatternBytes,
		"size of a pattern":    schema.MaxPatternSize,
		"size of all patterns": schema.MaxPatternsSize,
		"work":                 schema.DefaultMaxWork,
		"memory":               schema.DefaultMaxMemory,
		"added defaults":       schema.MaxDefaults,
		"violations":           schema.MaxViolations,
		"digits of a number":   schema.MaxNumberDigits,
		"exponent of a number": schema.MaxNumberExponent,
		"depth of an instance": schema.MaxGeneralDepth,
	}
	for name, value := range limits {
		if documented[name] != value {
			t.Errorf("%s is %v, and %v in the documentation", name, value, documented[name])
		}
	}
	if len(documented) != len(limits) {
		t.Errorf("the documentation has %d limits, want %d", len(documented), len(limits))
	}
}

// Patterns are compiled until those before have more than MaxPatternsSize instructions.
func TestMaxPatternsSizeIsExact(t *testing.T) {
	expression := func(i, length int) string { return fmt.Sprintf("^%05d%s$", i, strings.Repeat("x", length)) }
	sized := func(i, size int) string { // with as many instructions
		compiled, err := pattern.Compile(expression(i, 0))
		if err != nil {
			t.Fatal(err)
		}
		text := expression(i, size-compiled.Size())
		if compiled, err = pattern.Compile(text); err != nil || compiled.Size() != size {
			t.Fatalf("%s has %d instructions, want %d: %v", text, compiled.Size(), size, err)
		}
		return text
	}
	const each = schema.MaxPatternsSize / 100
	for more, within := range map[int]bool{0: true, 1: false} {
		var all []string
		for i := range 100 {
			size := each
			if i == 0 {
				size += more
			}
			all = append(all, fmt.Sprintf(`{"pattern":%q}`, sized(i, size)))
		}
		_, err := schema.Compile(json.RawMessage(`{"prefixItems":[`+strings.Join(all, ",")+`,{"pattern":"last"}]}`), nil)
		if (err == nil) != within {
			t.Errorf("another pattern after %d instructions: %v", schema.MaxPatternsSize+more, err)
		}
	}
}

// Defaults may add exactly MaxDefaults bytes to an instance, in names and values.
func TestMaxDefaultsIsExact(t *testing.T) {
	const objects = 256
	for more, within := range map[int]bool{0: true, 1: false} {
		first := schema.MaxDefaults/objects - len(`"a"""`) // bytes of the text
		text := fmt.Sprintf(`{"prefixItems":[{"type":"object","properties":{"a":{"default":%q}}}],"items":{"type":"object","properties":{"a":{"default":%q}}}}`,
			strings.Repeat("x", first+more), strings.Repeat("x", first))
		d, err := schema.NewDecoder[json.RawMessage](&schema.DecoderOptions{Schema: json.RawMessage(text)})
		if err != nil {
			t.Fatal(err)
		}
		instance := "[" + strings.TrimSuffix(strings.Repeat("{},", objects), ",") + "]"
		decoded, err := d.Decode(t.Context(), json.RawMessage(instance))
		if _, beyond := errors.AsType[*schema.BudgetError](err); beyond == within || within && err != nil {
			t.Errorf("%d bytes of defaults: %v", schema.MaxDefaults+more, err)
		}
		if want := len(instance) + objects*(first+len(`"a":""`)); within && len(decoded) != want {
			t.Errorf("the instance has %d bytes with defaults, want %d", len(decoded), want)
		}
	}
}

// workOf returns the smallest MaxWork with which a validator does not refuse an instance.
func workOf(t *testing.T, text, instance string) int {
	t.Helper()
	return 1 + sort.Search(1<<20, func(i int) bool {
		v, err := schema.Compile(json.RawMessage(text), &schema.CompileOptions{MaxWork: int64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		_, beyond := errors.AsType[*schema.BudgetError](v.Validate(t.Context(), []byte(instance)))
		return !beyond
	})
}

// The work for a value is what the documentation of 1,000,000,000 says. It is counted before the next value.
func TestWork(t *testing.T) {
	const each = 32 // for one schema and one value
	compiled, err := pattern.Compile("a+")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("1", 21)
	for _, test := range []struct {
		schema, value string
		want          int
	}{
		{`{}`, `"aaaa"`, 0},
		{`{}`, `7777`, 4},
		{`{"maxLength":9}`, `"aaaa"`, 6 + 4*4},
		{`{"maxLength":9}`, `"aaaaa"`, 7 + 4*5},
		{`{"const":"aaaa"}`, `"aaaa"`, 2 * 6},
		{`{"pattern":"a+"}`, `"aaaa"`, 6 + 5*(4+1)*compiled.Size()},
		{`{"pattern":"a+"}`, `"aaaaa"`, 7 + 5*(5+1)*compiled.Size()},
		{`{"minimum":0}`, long[1:], 20},
		{`{"minimum":0}`, long, 21 + 2*(300+20*21)},
		{`{"minimum":0}`, `1e5`, 3 + 2*(300+20*(1+5))},
		{`{"minimum":0}`, `1.5`, 3 + 2*(300+20*2)},
		{`{"type":"string"}`, `1`, 1 + 512 + 2*len("/0")},
		{`{"properties":{"a":{}}}`, `{"a":1}`, each + 1},
		{`{"properties":{"a":{}}}`, `{"b":1}`, each + 1 + 160},
	} {
		want := 3*each + test.want // the array, the value and the next one
		if got := workOf(t, `{"prefixItems":[`+test.schema+`]}`, `[`+test.value+`,null]`); got != want {
			t.Errorf("%s of %s takes %d units of work, want %d", test.value, test.schema, got, want)
		}
	}
}

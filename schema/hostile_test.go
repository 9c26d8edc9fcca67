package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/cputest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/schema"
)

const (
	fourMiB = 4 << 20
	// maxRatio is how much more CPU time than usualTime an instance may take. It is far more than
	// 1,000,000,000 takes, and far less than the instances of TestHostileWork take without a limit.
	maxRatio = 100
)

// usualTime is the CPU time for a large instance.
func usualTime() time.Duration {
	v, err := schema.Compile(json.RawMessage(`{"items":{"type":"integer","minimum":0}}`), nil)
	if err != nil {
		panic(err)
	}
	instance := []byte("[" + strings.Repeat("1,", 1_000_000) + "1]")
	return cputest.Time(func() {
		if err := v.Validate(context.Background(), instance); err != nil {
			panic(err)
		}
	})
}

// maxWork is 1,000,000,000, or a tenth of it under the race detector, which takes ten times as long.
func maxWork() int64 {
	if racetest.Enabled {
		return schema.DefaultMaxWork / 10
	}
	return schema.DefaultMaxWork
}

func longText() string { return `"` + strings.Repeat("x", fourMiB-2) + `"` }

// doubling returns a schema that applies leaf 2^n times.
func doubling(n int, leaf string) string {
	text := fmt.Sprintf(`{"allOf":[{"$ref":"#/$defs/a%d"}],"$defs":{"a0":%s`, n, leaf)
	for i := range n {
		text += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	return text + `}}`
}

// chain returns a schema that refers to n others in turn, each with the keywords.
func chain(n int, keywords string) string {
	text := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range n {
		text += fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d",%s},`, i, i+1, keywords)
	}
	return text + fmt.Sprintf(`"a%d":{}}}`, n)
}

// The CPU time and memory for the schema and the instance of a peer are limited.
func TestHostileWork(t *testing.T) {
	long := longText()
	array := func(item string) string {
		n := (fourMiB - 2) / (len(item) + 1)
		return "[" + strings.Repeat(item+",", n-1) + item + "]"
	}
	members := func(format string) string { return "{" + joined(60_000, format) + "}" }
	usual := usualTime()
	for name, test := range map[string]struct{ schema, instance string }{
		"doubling, length":        {doubling(18, `{"minLength":1}`), long},
		"doubling, failing":       {doubling(17, `{"minLength":5000000}`), long},
		"doubling, pattern":       {doubling(18, `{"pattern":"x*y"}`), long},
		"doubling, enum":          {doubling(18, `{"enum":["`+strings.Repeat("y", 1000)+`"]}`), long},
		"chain, length":           {chain(4000, `"minLength":1`), long},
		"chain, space":            {chain(4000, `"minItems":0`), "[" + strings.Repeat(" ", fourMiB) + "]"},
		"chain, members":          {chain(4000, `"required":["a"]`), members(`"p%d":1`)},
		"chain, general":          {chain(2000, `"allOf":[{"minLength":1}]`), long},
		"one large pattern":       {`{"pattern":"(([ab]{1,20}){1,20})*b"}`, `"` + strings.Repeat("a", fourMiB) + `"`},
		"one large, general":      {`{"not":{"pattern":"(([ab]{1,20}){1,20})*b"}}`, `"` + strings.Repeat("a", fourMiB) + `"`},
		"pattern of a name":       {`{"patternProperties":{"(([ab]{1,20}){1,20})*b":{}}}`, `{"` + strings.Repeat("a", fourMiB) + `":1}`},
		"pattern of a name, g":    {`{"not":{"patternProperties":{"(([ab]{1,20}){1,20})*b":{}}}}`, `{"` + strings.Repeat("a", fourMiB) + `":1}`},
		"propertyNames":           {`{"propertyNames":{"pattern":"(([ab]{1,20}){1,20})*b"}}`, `{"` + strings.Repeat("a", fourMiB) + `":1}`},
		"long enum, short values": {`{"items":{"enum":["\n` + strings.Repeat("y", 100_000) + `"]}}`, array(`"a"`)},
		"const at each level":     {`{"not":{"const":1},"items":{"$ref":"#"}}`, strings.Repeat("[", 100) + array("1") + strings.Repeat("]", 100)},
		"enum at each level":      {`{"enum":[[1],[2]],"items":{"$ref":"#"}}`, strings.Repeat("[", 900) + array("1") + strings.Repeat("]", 900)},
		"equal to the depth":      {`{"const":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`, strings.Repeat("[", 900) + strings.Repeat(" ", fourMiB) + strings.Repeat("]", 900)},
		"numbers in enum":         {`{"not":{"items":{"enum":[` + joined(5000, "%d.5e-390") + `]}}}`, array("1e-399")},
		"numbers in const":        {`{"not":{"items":{"enum":[[` + joined(5000, "%d.5e390") + `]]}}}`, "[" + array("1e-399") + "]"},
		"multipleOf":              {`{"not":{"items":{"multipleOf":1e-300}}}`, array("1e399")},
		"multipleOf, nodes":       {`{"items":{"multipleOf":0.` + strings.Repeat("7", 999) + `}}`, array("1." + strings.Repeat("3", 998) + "e-399")},
		"bounds, nodes":           {`{"items":{"minimum":0.` + strings.Repeat("7", 999) + `}}`, array("1." + strings.Repeat("3", 998) + "e399")},
		"fractions, nodes":        {`{"items":{"type":"integer"}}`, array("1e-399")},
		"unique fractions":        {`{"uniqueItems":true}`, array("1e-399")},
		"const of nested objects": {`{"const":` + strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900) + `}`, strings.Repeat(`{"a":`, 900) + longText() + strings.Repeat("}", 900)},
		"const of members":        {`{"const":{}}`, members(`"` + strings.Repeat("a", 60) + `%d":1`)},
		"uniqueItems of lists":    {`{"not":false,"uniqueItems":true}`, ambiguous()},
		"uniqueItems, few":        {doubling(12, `{"uniqueItems":true}`), "[" + strings.Repeat(`["`+strings.Repeat("x", 100_000)+`",`, 19) + "1" + strings.Repeat("]", 19) + "]"},
		"errors":                  {`{"items":{"anyOf":[` + joined(1000, `{"minimum":1%d}`) + `]}}`, array("1")},
		"dynamic, unreachable":    {dynamic(30), `"x"`},
		"unevaluated, chain":      {`{"unevaluatedItems":true,` + strings.TrimPrefix(chain(2000, `"minItems":0`), "{"), "[" + strings.Repeat("1,", 20_000) + "1]"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := schema.Compile(json.RawMessage(test.schema), &schema.CompileOptions{MaxWork: maxWork()})
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			used := cputest.Time(func() { err = v.Validate(t.Context(), []byte(test.instance)) })
			t.Logf("CPU time %v, the CPU time of a usual instance is %v: %.60v", used, usual, err)
			if used > maxRatio*usual {
				t.Errorf("the CPU time is %v, the CPU time of a usual instance is %v", used, usual)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 4<<30 {
				t.Errorf("allocated %d MiB", used>>20)
			}
		})
	}
}

// Instances of twice the size, and schemas of twice the size, take about twice the work.
func TestWorkDoubles(t *testing.T) {
	numbers := func(n int) string { return "[" + joined(n, "%d") + "]" }
	texts := func(n int) string { return `"` + strings.Repeat("a", n) + `"` }
	members := func(n int) string { return "{" + joined(n, `"p%d":1`) + "}" }
	fixed := func(schema string) func(int) string { return func(int) string { return schema } }
	for name, test := range map[string]struct {
		n                int
		schema, instance func(n int) string
	}{
		"nested allOf":              {20_000, fixed(doubling(5, `{"minLength":1}`)), texts},
		"nested allOf, items":       {5_000, fixed(strings.Replace(doubling(5, `{"minimum":0}`), `"allOf":[{"$ref":"#/$defs/a5"}]`, `"items":{"$ref":"#/$defs/a5"}`, 1)), numbers},
		"chain of $ref":             {1_000, func(n int) string { return chain(n, `"minLength":1`) }, fixed(texts(1000))},
		"chain of $ref, general":    {1_000, func(n int) string { return chain(n, `"allOf":[{"minLength":1}]`) }, fixed(texts(1000))},
		"cycle of $ref":             {450, fixed(`{"items":{"$ref":"#"}}`), func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }},
		"pattern":                   {100_000, fixed(`{"pattern":"^(a+)+$"}`), texts},
		"pattern, general":          {100_000, fixed(`{"not":{"pattern":"^(a+)+b$"}}`), texts},
		"size of a pattern":         {400, func(n int) string { return fmt.Sprintf(`{"pattern":"^(a{1,%d})*$"}`, n) }, fixed(texts(1000))},
		"uniqueItems":               {100_000, fixed(`{"uniqueItems":true}`), numbers},
		"uniqueItems, general":      {100_000, fixed(`{"not":false,"uniqueItems":true}`), numbers},
		"propertyNames":             {10_000, fixed(`{"propertyNames":{"pattern":"^p"}}`), members},
		"patternProperties":         {10_000, fixed(`{"patternProperties":{"^p":{"type":"integer"}}}`), members},
		"enum of long texts":        {1_000, func(n int) string { return `{"enum":[` + joined(100, `"`+strings.Repeat("b", n)+`%d"`) + `]}` }, texts},
		"enum of long texts, items": {1_000, fixed(`{"items":{"enum":[` + joined(1000, `%d`) + `]}}`), func(n int) string { return "[" + joined(n, "%d") + "]" }},
		"multipleOf":                {1_000, fixed(`{"items":{"multipleOf":1e-300}}`), func(n int) string { return "[" + strings.Repeat("1e399,", n) + "1]" }},
		"multipleOf, general":       {1_000, fixed(`{"not":false,"items":{"multipleOf":1e-300}}`), func(n int) string { return "[" + strings.Repeat("1e399,", n) + "1]" }},
		"unevaluatedItems":          {2_000, fixed(`{"unevaluatedItems":false,"allOf":[{"items":{"type":"integer"}}]}`), numbers},
		"unevaluated, chain": {300, func(n int) string {
			return `{"unevaluatedItems":true,` + strings.TrimPrefix(chain(n, `"minItems":0`), "{")
		}, fixed(numbers(100))},
		"names":       {20_000, fixed(`{}`), members},
		"equal items": {20_000, fixed(`{"uniqueItems":true}`), func(n int) string { return "[" + joined(n, "%d") + "," + joined(n, "%d") + "]" }},
	} {
		t.Run(name, func(t *testing.T) {
			var work [2]int64
			for i := range work {
				n := test.n << i
				v := compile(t, test.schema(n))
				work[i], _ = schema.Work(v, []byte(test.instance(n)))
			}
			ratio := float64(work[1]) / float64(work[0])
			t.Logf("%d and %d units, ratio %.2f", work[0], work[1], ratio)
			if ratio > 2.6 {
				t.Errorf("%d units, and %d for twice the size", work[0], work[1])
			}
		})
	}
}

// ambiguous returns an array whose items have the same hash in the general validator.
func ambiguous() string {
	var items []string
	for i := range 1 << 16 {
		text := `[`
		for bit := range 16 {
			if i>>bit&1 == 0 {
				text += `"a","a",`
			} else {
				text += `"a\u0004a",`
			}
		}
		items = append(items, text+`1]`)
	}
	return "[" + strings.Join(items[:20_000], ",") + "]"
}

// dynamic returns a schema with a part that only a $dynamicRef leads to.
func dynamic(n int) string {
	text := `{"$id":"x:outer","$ref":"#/$defs/x","$defs":{
		"x":{"$id":"x:inner","$dynamicRef":"#a","$defs":{"d":{"$dynamicAnchor":"a"}}},
		"a0":{"minLength":1}`
	for i := range n {
		text += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	return text + fmt.Sprintf(`,"heavy":{"$dynamicAnchor":"a","allOf":[{"$ref":"#/$defs/a%d"}]}}}`, n)
}

func TestHostilePatterns(t *testing.T) {
	large := strings.Repeat(`(.{1000})`, 1700) // 15 KB, 1.7 million instructions
	for name, text := range map[string]string{
		"one":                `{"pattern":"` + large + `"}`,
		"names":              `{"patternProperties":{"` + large + `":{}}}`,
		"general":            `{"not":{"pattern":"` + large + `"}}`,
		"general, names":     `{"not":{"patternProperties":{"` + large + `":{}}}}`,
		"in a default":       `{"not":{"$ref":"#/default"},"default":{"pattern":"` + large + `"}}`,
		"together":           `{"allOf":[` + joined(200, `{"pattern":"x%d.{1000}"}`) + `]}`,
		"together, in nodes": `{"properties":{` + joined(200, `"p%[1]d":{"pattern":"x%[1]d.{1000}"}`) + `}}`,
		"many runes":         `{"properties":{` + joined(2000, `"p%[1]d":{"pattern":"%[1]d[^\\pL\\pN]\\pL\\pL\\pL\\pL"}`) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := schema.Compile(json.RawMessage(text), nil)
			runtime.ReadMemStats(&after)
			invalid, ok := errors.AsType[*schema.CompileError](err)
			if !ok || !strings.Contains(invalid.Reason, "instructions") && name != "in a default" {
				t.Errorf("got %.200v, want a CompileError", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("allocated %d MiB", used>>20)
			}
		})
	}
}

// Arguments of 4 MiB, such as a file or a table, are within the limits.
func TestLargeArguments(t *testing.T) {
	size := fourMiB
	if racetest.Enabled {
		size /= 8
	}
	record := strings.Repeat(nestedRecord+",", size/len(nestedRecord)-1)
	for name, test := range map[string]struct{ schema, instance string }{
		"file":             {`{"type":"object","properties":{"path":{"type":"string","minLength":1},"content":{"type":"string","minLength":1,"maxLength":8000000}},"required":["path"]}`, `{"path":"a","content":` + longText() + `}`},
		"base64":           {`{"type":"string","pattern":"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"}`, `"` + strings.Repeat("abcd", size/4-1) + `"`},
		"records":          {recordsSchema, "[" + record + nestedRecord + "]"},
		"records, general": {`{"type":"array","items":{"anyOf":[` + nestedSchema + `,{"type":"null"}]}}`, "[" + record + nestedRecord + "]"},
		"numbers":          {`{"type":"array","items":{"type":"number","minimum":0}}`, "[" + strings.Repeat("1.5,", size/4-2) + "2]"},
		"text, general":    {`{"oneOf":[{"type":"string","minLength":1},{"type":"array"}]}`, longText()},
	} {
		t.Run(name, func(t *testing.T) {
			if err := compile(t, test.schema).Validate(t.Context(), []byte(test.instance)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMaxWork(t *testing.T) {
	for _, text := range []string{`{"minLength":1}`, `{"allOf":[{"minLength":1}]}`} {
		v, err := schema.Compile(json.RawMessage(text), &schema.CompileOptions{MaxWork: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Validate(t.Context(), []byte(`"short"`)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		err = v.Validate(t.Context(), []byte(longText()))
		if budget, ok := errors.AsType[*schema.BudgetError](err); !ok || !strings.Contains(budget.Reason, "more than 100000 units") {
			t.Errorf("%s: got %v, want a BudgetError", text, err)
		}
	}
	d, err := schema.NewDecoder[string](&schema.DecoderOptions{MaxWork: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(t.Context(), json.RawMessage(longText())); err != nil {
		t.Errorf("a string without keywords is read once, not validated: %v", err)
	}
}

// The size of the defaults that are added to an instance is limited.
func TestDefaultsAreBounded(t *testing.T) {
	d, err := schema.NewDecoder[json.RawMessage](&schema.DecoderOptions{Schema: json.RawMessage(
		`{"type":"array","items":{"type":"object","properties":{"a":{"default":"` + strings.Repeat("x", 100_000) + `"}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decode(t.Context(), json.RawMessage("["+strings.Repeat("{},", 10_000)+"{}]"))
	if budget, ok := errors.AsType[*schema.BudgetError](err); !ok || !strings.Contains(budget.Reason, "defaults") {
		t.Errorf("got %.200v, want a BudgetError", err)
	}
}

package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/schema"
)

const (
	fourMiB = 4 << 20
	// maxTime is far above what DefaultMaxWork takes, and far below what the
	// instances of TestHostileWork took without it.
	maxTime = 10 * time.Second
)

func longText() string { return `"` + strings.Repeat("x", fourMiB-2) + `"` }

// doubling applies leaf 2^n times.
func doubling(n int, leaf string) string {
	text := fmt.Sprintf(`{"allOf":[{"$ref":"#/$defs/a%d"}],"$defs":{"a0":%s`, n, leaf)
	for i := range n {
		text += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	return text + `}}`
}

// chain refers n times to the next schema, each with keywords of its own.
func chain(n int, keywords string) string {
	text := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range n {
		text += fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d",%s},`, i, i+1, keywords)
	}
	return text + fmt.Sprintf(`"a%d":{}}}`, n)
}

// What a peer's schema and instance can cost is bounded in time and memory.
func TestHostileWork(t *testing.T) {
	long := longText()
	array := func(item string) string {
		n := (fourMiB - 2) / (len(item) + 1)
		return "[" + strings.Repeat(item+",", n-1) + item + "]"
	}
	members := func(format string) string { return "{" + joined(60_000, format) + "}" }
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
		"uniqueItems of lists":    {`{"not":false,"uniqueItems":true}`, ambiguous()},
		"uniqueItems, few":        {doubling(12, `{"uniqueItems":true}`), "[" + strings.Repeat(`["`+strings.Repeat("x", 100_000)+`",`, 19) + "1" + strings.Repeat("]", 19) + "]"},
		"errors":                  {`{"items":{"anyOf":[` + joined(1000, `{"minimum":1%d}`) + `]}}`, array("1")},
		"dynamic, unreachable":    {dynamic(30), `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := schema.Compile(json.RawMessage(test.schema), nil)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			err = v.Validate([]byte(test.instance))
			if took := time.Since(start); took > maxTime {
				t.Errorf("%s took %v", name, took)
			} else {
				t.Logf("%s took %v: %.60v", name, took.Round(time.Millisecond), err)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 4<<30 {
				t.Errorf("allocated %d MiB", used>>20)
			}
		})
	}
}

// ambiguous lists items that all have one hash in the general validator.
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

// dynamic leads by $dynamicRef to a schema that nothing else leads to.
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

// Arguments of 4 MiB are ordinary: a file to write, a table to load.
func TestLargeArguments(t *testing.T) {
	record := strings.Repeat(nestedRecord+",", fourMiB/len(nestedRecord)-1)
	for name, test := range map[string]struct{ schema, instance string }{
		"file":             {`{"type":"object","properties":{"path":{"type":"string","minLength":1},"content":{"type":"string","minLength":1,"maxLength":8000000}},"required":["path"]}`, `{"path":"a","content":` + longText() + `}`},
		"base64":           {`{"type":"string","pattern":"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"}`, `"` + strings.Repeat("abcd", fourMiB/4-1) + `"`},
		"records":          {recordsSchema, "[" + record + nestedRecord + "]"},
		"records, general": {`{"type":"array","items":{"anyOf":[` + nestedSchema + `,{"type":"null"}]}}`, "[" + record + nestedRecord + "]"},
		"numbers":          {`{"type":"array","items":{"type":"number","minimum":0}}`, "[" + strings.Repeat("1.5,", fourMiB/4-2) + "2]"},
		"text, general":    {`{"oneOf":[{"type":"string","minLength":1},{"type":"array"}]}`, longText()},
	} {
		t.Run(name, func(t *testing.T) {
			if err := compile(t, test.schema).Validate([]byte(test.instance)); err != nil {
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
		if err := v.Validate([]byte(`"short"`)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		err = v.Validate([]byte(longText()))
		if budget, ok := errors.AsType[*schema.BudgetError](err); !ok || !strings.Contains(budget.Reason, "more than 100000 units") {
			t.Errorf("%s: got %v, want a BudgetError", text, err)
		}
	}
	d, err := schema.NewDecoder[string](&schema.DecoderOptions{MaxWork: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(json.RawMessage(longText())); err != nil {
		t.Errorf("a string without keywords is read once, not validated: %v", err)
	}
}

// Defaults must not multiply what a peer sends.
func TestDefaultsAreBounded(t *testing.T) {
	d, err := schema.NewDecoder[json.RawMessage](&schema.DecoderOptions{Schema: json.RawMessage(
		`{"type":"array","items":{"type":"object","properties":{"a":{"default":"` + strings.Repeat("x", 100_000) + `"}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decode(json.RawMessage("[" + strings.Repeat("{},", 10_000) + "{}]"))
	if budget, ok := errors.AsType[*schema.BudgetError](err); !ok || !strings.Contains(budget.Reason, "defaults") {
		t.Errorf("got %.200v, want a BudgetError", err)
	}
}

package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/schema"
)

func compile(t testing.TB, text string) *schema.Validator {
	t.Helper()
	v, err := schema.Compile(json.RawMessage(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Both validators use the same texts.
func TestViolationTexts(t *testing.T) {
	const search = `{"type":"object","properties":{
		"query":{"type":"string","minLength":2,"maxLength":5,"pattern":"^[a-z]+$"},
		"limit":{"type":"integer","minimum":1,"maximum":100,"multipleOf":5},
		"ratio":{"type":["number","null"],"exclusiveMinimum":0,"exclusiveMaximum":1},
		"sort":{"enum":["newest","oldest"]},
		"kind":{"const":"a"},
		"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2,"uniqueItems":true},
		"map":{"type":"object","minProperties":1,"maxProperties":1},
		"off":false
	},"required":["query"],"additionalProperties":false}`
	const names = "query, limit, ratio, sort, kind, tags, map"
	tests := []struct{ instance, want string }{
		{`{}`, `missing "query" (accepted: ` + names + `)`},
		{`{"query":7}`, `at "/query": expected a string, got the number 7`},
		{`{"query":null}`, `at "/query": expected a string, got null`},
		{`{"query":"x"}`, `at "/query": expected at least 2 characters, got 1 character`},
		{`{"query":"abcdef"}`, `at "/query": expected at most 5 characters, got 6 characters`},
		{`{"query":"a1"}`, `at "/query": expected text that matches ^[a-z]+$, got "a1"`},
		{`{"query":"ab","limit":500}`, `at "/limit": expected at most 100, got 500`},
		{`{"query":"ab","limit":0}`, `at "/limit": expected at least 1, got 0`},
		{`{"query":"ab","limit":7}`, `at "/limit": expected a multiple of 5, got 7`},
		{`{"query":"ab","limit":10.5}`, `at "/limit": expected an integer, got the number 10.5`},
		{`{"query":"ab","limit":"ten"}`, `at "/limit": expected an integer, got the string "ten"`},
		{`{"query":"ab","ratio":0}`, `at "/ratio": expected more than 0, got 0`},
		{`{"query":"ab","ratio":1}`, `at "/ratio": expected less than 1, got 1`},
		{`{"query":"ab","ratio":true}`, `at "/ratio": expected null or a number, got the boolean true`},
		{`{"query":"ab","sort":"up"}`, `at "/sort": expected one of "newest", "oldest", got "up"`},
		{`{"query":"ab","kind":{}}`, `at "/kind": expected "a", got an object`},
		{`{"query":"ab","tags":["a",3]}`, `at "/tags/1": expected a string, got the number 3`},
		{`{"query":"ab","tags":[]}`, `at "/tags": expected at least 1 item, got 0 items`},
		{`{"query":"ab","tags":["a","\u0061"]}`, `at "/tags": expected items that all differ, got equal items 0 and 1`},
		{`{"query":"ab","map":{"a":1,"b":2}}`, `at "/map": expected at most 1 member, got 2 members`},
		{`{"query":"ab","off":1}`, `at "/off": expected no value, got the number 1`},
		{`{"query":"ab","co~l/our":"red"}`, `at "/co~0l~1our": unknown member; accepted: ` + names},
		{`{"query":"ab","query":"cd"}`, `at "/query": given twice`},
		{`{"query":"ab","map":{"x":{"a":1,"\u0061":2}}}`, `at "/map/x/a": given twice`},
		{`{"query":"ab"`, `invalid JSON at byte 13: expected ',' or '}' after a member, found the end of the text`},
		{`{"query":"ab"} 1`, `invalid JSON at byte 15: expected the end of the text, found '1'`},
		{``, `invalid JSON at byte 0: expected a value, found the end of the text`},
		{`[]`, `expected an object, got an array`},
	}
	general, err := schema.CompileGeneral([]byte(search))
	if err != nil {
		t.Fatal(err)
	}
	for name, validator := range map[string]*schema.Validator{"nodes": compile(t, search), "general": general} {
		t.Run(name, func(t *testing.T) {
			for _, test := range tests {
				err := validator.Validate(t.Context(), []byte(test.instance))
				if _, ok := errors.AsType[*schema.ValidationError](err); !ok {
					t.Errorf("%s: got %v", test.instance, err)
				} else if diff := cmp.Diff(test.want, err.Error()); diff != "" {
					t.Errorf("%s: -want +got:\n%s", test.instance, diff)
				}
			}
		})
	}
}

func TestGeneralTexts(t *testing.T) {
	for _, test := range []struct{ schema, instance, want string }{
		{`{"anyOf":[{"type":"string"},{"type":"integer","minimum":5}]}`, `3`, `expected one of these: a string; or at least 5, got the number 3`},
		{`{"oneOf":[{"properties":{"k":{"const":"a"}}},{"required":["n"]}]}`, `{"k":"b"}`, `expected one of these: at "/k": expected "a", got "b"; or missing "n", got an object`},
		{`{"anyOf":[{"anyOf":[{"anyOf":[{"anyOf":[{"anyOf":[{"type":"string"}]}]}]}]}]}`, `3`, `expected one of these: one of these: one of these: a value that matches an alternative, got the number 3`},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, `expected a value that matches one alternative only, not both 0 and 1, got 3`},
		{`{"allOf":[{"type":"string"},{"type":"integer"}]}`, `null`, "expected a string, got null\nexpected an integer, got null"},
		{`{"not":{"type":"string"}}`, `"x"`, `expected a value that does not match the schema in not, got "x"`},
		{`{"contains":{"type":"string"}}`, `[1]`, `expected an item that matches the schema in contains, got an array`},
		{`{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `at "/abc": expected a name that is at most 2 characters`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `missing "b"`},
		{`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"z":1}`, `at "/z": expected no value, got the number 1`},
	} {
		if err := compile(t, test.schema).Validate(t.Context(), []byte(test.instance)); err == nil || err.Error() != test.want {
			t.Errorf("%s: %s\ngot  %v\nwant %s", test.schema, test.instance, err, test.want)
		}
	}
}

func TestFormatIsAnAnnotation(t *testing.T) {
	for _, text := range []string{
		`{"format":"email"}`, `{"not":{"not":{"format":"email"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","anyOf":[{"format":"regex"}]}`,
	} {
		if err := compile(t, text).Validate(t.Context(), []byte(`"("`)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestManyViolations(t *testing.T) {
	for _, text := range []string{`{"items":{"type":"string"}}`, `{"not":false,"items":{"type":"string"}}`} {
		var invalid *schema.ValidationError
		err := compile(t, text).Validate(t.Context(), []byte("["+joined(1000, "%d")+"]"))
		if !errors.As(err, &invalid) || len(invalid.Violations) != schema.MaxViolations {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// Messages repeat only the start of a long text.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	err := compile(t, `{"properties":{"a":{"enum":["x"]}},"additionalProperties":false}`).Validate(t.Context(), []byte(`{"a":"`+long+`","`+long+`":1}`))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

func TestBudget(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"x":`, n) + `1` + strings.Repeat(`}`, n) }
	doubling := func(keyword string) string {
		text := `{"$ref":"#/$defs/a40","$defs":{"a0":{"type":"string"}`
		for i := range 40 {
			text += fmt.Sprintf(`,"a%d":{%q:[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, keyword, i, i)
		}
		return text + `}}`
	}
	tests := map[string]struct{ schema, instance string }{
		"doubling by allOf":       {doubling("allOf"), `"x"`},
		"doubling by anyOf":       {doubling("anyOf"), `1`},
		"doubling by oneOf":       {doubling("oneOf"), `1`},
		"doubling by depth":       {`{"anyOf":[{"properties":{"x":{"$ref":"#"}}},{"properties":{"x":{"$ref":"#"}}}]}`, nested(100)},
		"doubling by depth, $ref": {`{"$ref":"#/$defs/a","properties":{"x":{"$ref":"#"}},"$defs":{"a":{"properties":{"x":{"$ref":"#"}}}}}`, nested(100)},
		"schemas times values":    {`{"not":{"type":"null"},"items":{"anyOf":[` + joined(1000, `{"minimum":%d}`) + `]}}`, "[" + joined(20_000, "%d") + "]"},
		"depth":                   {`{"anyOf":[{}]}`, strings.Repeat("[", 129) + strings.Repeat("]", 129)},
		"exponent":                {`{"minimum":1}`, `1e1000000000`},
		"exponent, general":       {`{"not":{"minimum":1}}`, `1e-1000000000`},
		"digits":                  {`true`, strings.Repeat("1", 1001)},
		"endless $dynamicRef":     {`{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, `1`},
		"members":                 {`true`, `{` + joined(70_000, `"%d":1`) + `}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := schema.Compile(json.RawMessage(test.schema), &schema.CompileOptions{MaxWork: maxWork()})
			if err != nil {
				t.Fatal(err)
			}
			err = v.Validate(t.Context(), []byte(test.instance))
			if _, ok := errors.AsType[*schema.BudgetError](err); !ok {
				t.Errorf("got %v, want a BudgetError", err)
			}
		})
	}
}

// The work is linear in the size of the instance. Quadratic work takes minutes here.
func TestLinearWork(t *testing.T) {
	numbers := "[" + joined(50_000, "%d") + "]"
	for name, test := range map[string]struct{ schema, instance string }{
		"uniqueItems":          {`{"uniqueItems":true}`, numbers},
		"uniqueItems, general": {`{"not":false,"uniqueItems":true}`, numbers},
		"enum":                 {`{"items":{"enum":[` + joined(30_000, "%d") + `]}}`, "[" + joined(30_000, "%d") + "]"},
		"pattern":              {`{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 100_000) + `"`},
		"members":              {`{"properties":{` + joined(9000, `"p%d":{}`) + `}}`, `{` + joined(9000, `"p%d":1`) + `}`},
		"objects":              {`{"items":{"properties":{` + joined(9000, `"p%d":{}`) + `}}}`, "[" + joined(100_000, `{"p%d":1}`) + "]"},
		"depth":                {`{"items":{"$ref":"#"}}`, strings.Repeat("[", 999) + strings.Repeat("]", 999)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := compile(t, test.schema).Validate(t.Context(), []byte(test.instance)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidateIsConcurrent(t *testing.T) {
	for _, text := range []string{`{"items":{"type":"integer"}}`, `{"items":{"anyOf":[{"type":"integer"}]}}`} {
		v := compile(t, text)
		done := make(chan error)
		for range 4 {
			go func() { done <- v.Validate(t.Context(), []byte(`[1,2,3]`)) }()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

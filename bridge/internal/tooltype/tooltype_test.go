package tooltype_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/internal/tooltype"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Schemas become the closest types.
func TestTypes(t *testing.T) {
	for _, test := range []struct{ schema, want, declared string }{
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`, `{ a: number; b?: string }`, ""},
		{`{"properties":{"a":{"type":["string","null"]}}}`, `{ a?: string | null }`, ""},
		{`{"type":["string","number","integer"]}`, `string | number`, ""},
		{`{"enum":["x","y",null,1,true]}`, `"x" | "y" | 1 | true | null`, ""},
		{`{"type":"string","enum":["x",null,3]}`, `"x"`, ""},
		{`{"type":"string","enum":[3]}`, `string`, ""},
		{`{"enum":[1.5,2]}`, `number`, ""},
		{`{"enum":[{"a":1}]}`, `unknown`, ""},
		{`{"const":9007199254740993}`, `number`, ""},
		{`{"const":"a\u2028\u202e\"*/"}`, `"a\u2028\u202e\"*/"`, ""},
		{`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`, `string | string[]`, ""},
		{`{"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}`, `(string | null)[]`, ""},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":false}`, `(string | number)[]`, ""},
		{`{"type":"array","items":[{"type":"string"}]}`, `string[]`, ""},
		{`{"type":"array"}`, `unknown[]`, ""},
		{`{"type":"object"}`, `{ [name: string]: unknown }`, ""},
		{`{"type":"object","additionalProperties":false}`, `{ [name: string]: never }`, ""},
		{`{"type":"object","additionalProperties":{"type":"number"}}`, `{ [name: string]: number }`, ""},
		{`{"type":"object","patternProperties":{"^a":{"type":"number"}},"additionalProperties":false}`, `{ [name: string]: number }`, ""},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, `{ a?: unknown; [name: string]: unknown }`, ""},
		{`{"type":"object","properties":{"a-b":{},"":{},"1":{},"__proto__":{},"in":{}}}`, `{ "a-b"?: unknown; ""?: unknown; "1"?: unknown; __proto__?: unknown; in?: unknown }`, ""},
		{`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{ a?: unknown; b?: unknown }`, ""},
		{`{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}}}]}`, `{ a: string } | { b?: string }`, ""},
		{`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{"type":"null"},"a":{"type":"string"}}}],"required":["a"]}`, `{ a: string; b?: null }`, ""},
		{`{"allOf":[{"type":"string"},{"type":"null"}]}`, `string`, ""},
		{`{"type":"number","allOf":[{"type":"integer"}]}`, `number`, ""},
		{`{"type":"string","not":{"const":"x"},"if":{"const":1}}`, `string`, ""},
		{`{"type":"frobnicate"}`, `unknown`, ""},
		{`true`, `unknown`, ""},
		{``, `unknown`, ""},
		{`{"type":"object","type":"string"}`, `unknown`, ""},

		{`{"$ref":"#/$defs/B","$defs":{"B":{"type":"string"}}}`, `string`, ""},
		{`{"items":{"$ref":"#/$defs/B"},"$defs":{"B":{"enum":["x"]}}}`, `TB[]`, `type TB = "x";`},
		{`{"items":{"$ref":"#/definitions/a~1b%25"},"definitions":{"a/b%":{"properties":{"c":{}}}}}`, `TAB[]`, `type TAB = { c?: unknown };`},
		{`{"items":{"$ref":"https://example.com"}}`, `unknown[]`, ""},
		{`{"items":{"$ref":"#/$defs/none"}}`, `unknown[]`, ""},
		{`{"items":{"$ref":"#/properties/x/%"}}`, `unknown[]`, ""},
		{`{"properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"number"}}}`, `{ a?: number; b?: number }`, ""},
		// Types that contain themselves.
		{`{"properties":{"next":{"$ref":"#"}}}`, `TSelf`, `type TSelf = { next?: TSelf };`},
		{`{"$ref":"#/$defs/N","$defs":{"N":{"properties":{"next":{"$ref":"#/$defs/N"}}}}}`, `{ next?: TN }`, `type TN = { next?: TN };`},
		{`{"items":{"$ref":"#/$defs/J"},"$defs":{"J":{"anyOf":[{"type":"string"},{"items":{"$ref":"#/$defs/J"}}]}}}`, `TJ[]`, `type TJ = string | TJ[];`},
		{`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"properties":{"b":{"$ref":"#/$defs/B"}}},"B":{"allOf":[{"$ref":"#/$defs/A"},{"properties":{"c":{"type":"null"}}}]}}}`, `TA[]`, "type TB = { c?: null };\ntype TA = { b?: TB };"},
		{`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"additionalProperties":{"$ref":"#/$defs/A"}}}}`, `TA[]`, `type TA = { [name: string]: TA };`},
		// Types that are nothing but themselves.
		{`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`, `unknown[]`, ""},
		{`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"anyOf":[{"type":"string"},{"type":"null"},{"$ref":"#/$defs/A"}]}}}`, `TA[]`, `type TA = string | null;`},
		{`{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/B"}]},"B":{"anyOf":[{"type":"number"},{"$ref":"#/$defs/A"}]}}}`, `TA[]`, "type TA = string | number;"},
	} {
		ts := &tooltype.TypeScript{Short: true}
		if got := ts.Expression(tooltype.Of(json.RawMessage(test.schema)), "T"); got != test.want || strings.TrimSpace(ts.Declarations()) != test.declared {
			t.Errorf("%s\n got %s with %q\nwant %s with %q", test.schema, got, ts.Declarations(), test.want, test.declared)
		}
	}
}

// Arguments are objects.
func TestInput(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`:                           `{ [name: string]: never }`,
		`{"type":"object","properties":{}}`:           `{ [name: string]: never }`,
		`{"type":"object","additionalProperties":{}}`: `{ [name: string]: unknown }`,
		`{}`:                `{ [name: string]: unknown }`,
		`{"type":"string"}`: `{ [name: string]: unknown }`,
		`{"type":["object","null"],"properties":{"a":{}}}`:                             `{ a?: unknown }`,
		`{"anyOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}}}]}`: `{ a: unknown } | { b?: unknown }`,
	} {
		if got := (&tooltype.TypeScript{Short: true}).Expression(tooltype.Input(json.RawMessage(schema)), "T"); got != want {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
	}
}

// A union of objects is one object with all of their fields.
func TestFlat(t *testing.T) {
	for schema, want := range map[string]string{
		`{"anyOf":[{"properties":{"a":{"type":"string"},"k":{"const":"x"}},"required":["a","k"]},{"properties":{"b":{},"k":{"const":"y"}},"required":["k"]}]}`: `{ a?: string; k: "x" | "y"; b?: unknown }`,
		`{"anyOf":[{"properties":{"a":{}}},{"type":"object"}]}`: `{ [name: string]: unknown }`,
		`{"anyOf":[{"properties":{"a":{}}},{"type":"null"}]}`:   `{ a?: unknown }`,
		`{"type":"number"}`: `{ [name: string]: unknown }`,
	} {
		if got := (&tooltype.TypeScript{Short: true}).Expression(tooltype.Of(json.RawMessage(schema)).Flat(), "T"); got != want {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
	}
}

func Example() {
	schema := json.RawMessage(`{"type":"object","required":["owner"],"properties":{
		"owner":{"type":"string","description":"the account */"},
		"sort":{"enum":["name","date"],"description":"the order\nof the list"}}}`)
	short := &tooltype.TypeScript{Short: true}
	fmt.Println(short.Expression(tooltype.Input(schema), "ListRepos"))
	whole := &tooltype.TypeScript{Exported: true}
	whole.Declare("ListReposArgs", "ListRepos", tooltype.Input(schema))
	fmt.Print(whole.Declarations())
	// Output:
	// { owner: string; sort?: "name" | "date" }
	// export type ListReposArgs = {
	//   /** the account *\/ */
	//   owner: string;
	//   /**
	//    * the order
	//    * of the list
	//    */
	//   sort?: "name" | "date";
	// };
}

// Comments and strings contain visible characters only, and end where they should.
func TestHostileText(t *testing.T) {
	texts := append(testsuites.HostileText(t), "*/ x", "**/", "* /", "/", "@ts-ignore", "a\n@ts-nocheck", "*")
	for _, text := range texts {
		comment := tooltype.Block("", text)
		if strings.Count(comment, "*/") > 1 || comment != "" && !strings.HasSuffix(comment, " */\n") {
			t.Errorf("%q becomes %q", text, comment)
		}
		quoted := tooltype.QuoteScript(text)
		var back string
		if err := json.Unmarshal([]byte(quoted), &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") && back != string([]rune(text)) {
			t.Errorf("%q becomes %s, which is %q, error %v", text, quoted, back, err)
		}
		for _, r := range comment + quoted {
			if r != '\n' && !strconv.IsPrint(r) {
				t.Errorf("%q has %U", text, r)
			}
		}
		for _, word := range []string{tooltype.Word(text), tooltype.Exported(text)} {
			if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || '0' <= word[0] && word[0] <= '9' || len(word) > 80 {
				t.Errorf("%q becomes the identifier %q", text, word)
			}
		}
	}
}

// The declarations of 115 tools are shorter than their schemas.
func TestCorpus(t *testing.T) {
	text, err := os.ReadFile("../../search/testdata/github/tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ts := &tooltype.TypeScript{Short: true}
	schemas, written := 0, 0
	for line := range strings.Lines(string(text)) {
		var tool struct {
			Name        string
			InputSchema json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &tool); err != nil {
			t.Fatal(err)
		}
		schemas += len(tool.InputSchema)
		written += len(ts.Expression(tooltype.Input(tool.InputSchema), tooltype.Exported(tool.Name)))
	}
	if written *= 4; written > schemas {
		t.Errorf("the types of the arguments have %d bytes, and their schemas %d", written/4, schemas)
	}
}

// A schema is read in bounded time, and its type has a bounded size, however its references are.
func TestCostIsBounded(t *testing.T) {
	const n = 500
	var doubled, chained, merged strings.Builder
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&doubled, `"d%d":{"anyOf":[{"properties":{"a":%s,"b":%s}},{"items":%s},{"items":{"items":%s}}]},`, i, next, next, next, next)
		fmt.Fprintf(&chained, `"d%d":{"allOf":[%s,%s],"properties":{"p%d":{}}},`, i, next, next, i)
		fmt.Fprintf(&merged, `"d%d":{"anyOf":[%s,%s]},`, i, strings.TrimSuffix(strings.Repeat(next+",", 40), ","), next)
	}
	for name, defs := range map[string]string{"doubled": doubled.String(), "chained": chained.String(), "merged": merged.String()} {
		schema := json.RawMessage(`{"items":{"$ref":"#/$defs/d0"},"$defs":{` + defs + `"last":{}}}`)
		ts := &tooltype.TypeScript{Short: true}
		ts.Expression(tooltype.Of(schema), "T")
		if size := len(ts.Declarations()); size > 10*len(schema) {
			t.Errorf("%s: %d bytes become %d", name, len(schema), size)
		}
	}
}

func FuzzTypes(f *testing.F) {
	f.Add(`{"properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["a"],"allOf":[{"$ref":"#/properties/a"}]}`)
	f.Add(`{"$ref":"#/$defs/A","$defs":{"A":{"oneOf":[{"$ref":"#/$defs/B"},{"enum":["*/",1]}]},"B":{"items":{"$ref":"#/$defs/A"}}}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		for _, of := range []*tooltype.Type{tooltype.Of(json.RawMessage(schema)), tooltype.Input(json.RawMessage(schema)).Flat()} {
			var texts []string
			for range 2 {
				ts := &tooltype.TypeScript{}
				ts.Declare("X", "Y", of)
				texts = append(texts, ts.Declarations())
			}
			if texts[0] != texts[1] {
				t.Error("two runs differ")
			}
		}
	})
}

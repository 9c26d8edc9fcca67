package entrycheck_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/internal/entrycheck"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// whole has an entry of each kind with all members.
var whole = map[mcp.Kind]string{
	mcp.KindTool: `{"name":"a","title":"A","description":"d","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"p":{"type":"string"}},"required":["p"]},` +
		`"outputSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]},` +
		`"annotations":{"title":"A","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},` +
		`"execution":{"taskSupport":"optional"},"icons":[{"src":"https://e.example/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"light"}],"_meta":{"x":1},"other":[1.50]}`,
	mcp.KindPrompt: `{"name":"a","title":"A","description":"d","arguments":[{"name":"p","title":"P","description":"d","required":true}],"icons":[{"src":"https://e.example/i.png"}],"_meta":{}}`,
	mcp.KindResource: `{"uri":"a:b","name":"a","title":"A","description":"d","mimeType":"text/plain","size":12,` +
		`"annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"},"icons":[{"src":"https://e.example/i.png"}],"_meta":{}}`,
	mcp.KindResourceTemplate: `{"uriTemplate":"a:{b}","name":"a","title":"A","description":"d","mimeType":"text/plain","annotations":{"audience":["user"],"priority":1},"icons":[{"src":"https://e.example/i.png"}],"_meta":{}}`,
	mcp.KindSkill:            `{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","description":"d"},"resources":"dynamic","_meta":{}}`,
	mcp.KindEvent:            `{"name":"a","title":"A","description":"d","delivery":["poll"],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"},"_meta":{}}`,
}

func TestValidEntriesKeepTheirBytes(t *testing.T) {
	for kind, entry := range whole {
		valid, repairs, err := entrycheck.Entry(kind, []byte(entry))
		if err != nil || len(repairs) > 0 || string(valid) != entry {
			t.Errorf("%v: %s %q %v", kind, valid, repairs, err)
		}
	}
}

// nothing in place of a value removes it.
var nothing = new(any)

// mutate calls use with each value in which one value, at any depth, has been replaced by another.
func mutate(value any, path string, use func(path string, replaced any)) {
	for _, other := range []any{nothing, nil, true, false, 7.0, 1.5, 1e300, "x", "", []any{}, []any{nil}, []any{7.0}, []any{"x", "x"}, []any{map[string]any{}}, map[string]any{}, map[string]any{"x": nil}, map[string]any{"type": "string"}} {
		use(path, other)
	}
	switch value := value.(type) {
	case map[string]any:
		for name := range value {
			mutate(value[name], path+"/"+name, func(at string, replaced any) {
				changed := maps.Clone(value)
				if changed[name] = replaced; replaced == nothing {
					delete(changed, name)
				}
				use(at, changed)
			})
		}
	case []any:
		for i := range value {
			mutate(value[i], fmt.Sprint(path, "/", i), func(at string, replaced any) {
				changed := slices.Clone(value)
				if changed[i] = replaced; replaced == nothing {
					changed = slices.Delete(changed, i, i+1)
				}
				use(at, changed)
			})
		}
	}
}

// Whatever one value of an entry is, the entry is refused, or valid in every version of the protocol.
func TestEntriesAreValidInEveryVersion(t *testing.T) {
	for kind, name := range map[mcp.Kind]string{
		mcp.KindTool: "Tool", mcp.KindPrompt: "Prompt", mcp.KindResource: "Resource", mcp.KindResourceTemplate: "ResourceTemplate",
	} {
		validators := validatorsOf(t, name)
		var value any
		if err := json.Unmarshal([]byte(whole[kind]), &value); err != nil {
			t.Fatal(err)
		}
		refused, valid := 0, 0
		mutate(value, "", func(path string, replaced any) {
			if replaced == nothing {
				return
			}
			text, err := json.Marshal(replaced)
			if err != nil {
				t.Fatal(err)
			}
			entry, repairs, err := entrycheck.Entry(kind, text)
			if err != nil {
				refused++
				return
			}
			if string(entry) != string(text) && len(repairs) == 0 || string(entry) == string(text) && len(repairs) > 0 {
				t.Errorf("%s: %s became %s, and the repairs are %q", path, text, entry, repairs)
			}
			again, repairs, err := entrycheck.Entry(kind, entry)
			if err != nil || len(repairs) > 0 || string(again) != string(entry) {
				t.Errorf("%s: %s became %s: %q %v", path, entry, again, repairs, err)
			}
			valid++
			for version, validator := range validators {
				if err := validator.Validate(t.Context(), forVersion(t, version, entry)); err != nil {
					t.Errorf("%s %s: %s became %s: %v", version, path, text, entry, err)
				}
			}
		})
		if refused < 30 || valid < 100 {
			t.Errorf("%v: %d refused, %d valid", kind, refused, valid)
		}
	}
}

// forVersion removes the output schema that servers do not send before 2026-07-28.
func forVersion(t *testing.T, version string, entry []byte) []byte {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(entry, &members); err != nil {
		t.Fatal(err)
	}
	var output struct{ Type any }
	_ = json.Unmarshal(members["outputSchema"], &output)
	if version < string(mcp.Version20260728) && output.Type != "object" {
		delete(members, "outputSchema")
	}
	entry, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// validatorsOf returns the validators of a type by the version of the protocol.
func validatorsOf(t *testing.T, name string) map[string]*schema.Validator {
	dir, official := testsuites.Dir(t, "mcp")
	if !official {
		t.Skip("the schemas of MCP are in " + testsuites.Variable)
	}
	validators := make(map[string]*schema.Validator)
	for _, version := range mcp.Versions() {
		data, err := os.ReadFile(filepath.Join(dir, string(version), "schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		var file map[string]any
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for _, types := range []string{"$defs", "definitions"} {
			all, ok := file[types].(map[string]any)
			if !ok {
				continue
			}
			used := map[string]any{}
			collect(all, name, used)
			text, err := json.Marshal(map[string]any{"$schema": file["$schema"], types: used, "allOf": []any{map[string]any{"$ref": "#/" + types + "/" + name}}})
			if err != nil {
				t.Fatal(err)
			}
			if validators[string(version)], err = schema.Compile(text, nil); err != nil {
				t.Fatalf("%s: %v", version, err)
			}
		}
	}
	return validators
}

// collect adds a type and those that it refers to.
func collect(all map[string]any, name string, used map[string]any) {
	if used[name] != nil {
		return
	}
	used[name] = all[name]
	text, _ := json.Marshal(all[name])
	for other := range all {
		if strings.Contains(string(text), "/"+other+`"`) {
			collect(all, other, used)
		}
	}
}

func TestEntry(t *testing.T) {
	schemas := func(input string) string { return `{"name":"a","inputSchema":` + input + `}` }
	output := func(output string) string {
		return `{"name":"a","inputSchema":{"type":"object"},"outputSchema":` + output + `}`
	}
	const plain = `{"name":"a","inputSchema":{"type":"object"}}`
	for _, test := range []struct {
		kind        mcp.Kind
		entry, want string // "" for an error
		says        string // is in the error, or in a repair
	}{
		{mcp.KindTool, `{"name":"a","title":null,"inputSchema":{"type":"object"}}`, plain, "title was removed: null"},
		{mcp.KindTool, `{"name":"a"}`, plain, "inputSchema was missing"},
		{mcp.KindTool, schemas(`null`), plain, "inputSchema was missing"},
		{mcp.KindTool, schemas(`true`), plain, "inputSchema was true"},
		{mcp.KindTool, schemas(`{}`), plain, `inputSchema.type is "object" now`},
		{mcp.KindTool, schemas(`{"$schema":"s"}`), schemas(`{"$schema":"s","type":"object"}`), "inputSchema.type"},
		{mcp.KindTool, schemas(`{"type":null}`), plain, "inputSchema.type"},
		{mcp.KindTool, schemas(`{"type":["object","null"]}`), plain, "inputSchema.type"},
		{mcp.KindTool, schemas(`{"anyOf":[{"required":["a"]}]}`), schemas(`{"anyOf":[{"required":["a"]}],"type":"object"}`), "inputSchema.type"},
		{mcp.KindTool, schemas(`{"type":"object","properties":null,"required":null}`), plain, "inputSchema.required was removed"},
		{mcp.KindTool, schemas(`{"type":"object","properties":{"a":true,"b":false,"c":null}}`), schemas(`{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{}}}`), `inputSchema.properties["b"]`},
		{mcp.KindTool, schemas(`false`), "", "inputSchema: expected an object, found a boolean"},
		{mcp.KindTool, schemas(`"x"`), "", "found a string"},
		{mcp.KindTool, schemas(`{"type":"string"}`), "", `its type must be object`},
		{mcp.KindTool, schemas(`{"type":["string","null"]}`), "", `its type must be object`},
		{mcp.KindTool, schemas(`{"type":"object","required":"x"}`), "", "required: expected an array, found a string"},
		{mcp.KindTool, schemas(`{"type":"object","required":[1]}`), "", "required: expected strings"},
		{mcp.KindTool, schemas(`{"type":"object","properties":["x"]}`), "", "properties: expected an object"},
		{mcp.KindTool, schemas(`{"type":"object","properties":{"x":"string"}}`), "", `properties: "x": expected an object`},
		{mcp.KindTool, schemas(`{"type":"object","type":"string"}`), "", "duplicate"},
		{mcp.KindTool, `{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":null,"x":null}}`, `{"name":"a","inputSchema":{"type":"object"},"annotations":{"x":null}}`, "annotations.readOnlyHint"},
		{mcp.KindTool, `{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"true"}}`, `{"name":"a","inputSchema":{"type":"object"},"annotations":{}}`, "annotations.readOnlyHint was removed: expected a boolean, found a string"},
		{mcp.KindTool, `{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"readOnlyHint":false}}`, plain, "annotations was removed: duplicate"},
		{mcp.KindTool, `{"name":"a","inputSchema":{"type":"object"},"icons":[{"src":1},{"src":"s"}]}`, `{"name":"a","inputSchema":{"type":"object"},"icons":[{"src":"s"}]}`, "icons[0] was removed: src: expected a string, found a number"},
		{mcp.KindTool, `{"name":"a","inputSchema":{"type":"object"},"icons":[{"src":"s","theme":"pink","sizes":"48x48"}]}`, `{"name":"a","inputSchema":{"type":"object"},"icons":[{"src":"s"}]}`, "icons[0].theme"},
		{mcp.KindTool, `{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"maybe"}}`, `{"name":"a","inputSchema":{"type":"object"},"execution":{}}`, "execution.taskSupport"},
		{mcp.KindTool, `{"title":"A","inputSchema":{"type":"object"}}`, "", "name: it is missing"},
		{mcp.KindTool, `{"name":null,"inputSchema":{"type":"object"}}`, "", "name: expected a string, found null"},
		{mcp.KindTool, `7`, "", "expected an object, found a number"},

		{mcp.KindTool, output(`null`), plain, "outputSchema"},
		{mcp.KindTool, output(`true`), plain, "outputSchema was removed"},
		{mcp.KindTool, output(`{"type":"object","required":"x"}`), plain, "outputSchema was removed: required"},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":true}}`), output(`{"type":"object","properties":{"a":{}}}`), "outputSchema.properties"},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":{"$ref":"#/$defs/X"}}}`), plain, `"#/$defs/X" leads to nothing`},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":{"$ref":"https://e.example/x"}}}`), plain, "another document"},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":{"required":true}}}`), plain, "required: expected an array"},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":{"type":"text"}}}`), plain, "expected the name of a type"},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":{"pattern":"(?i)x"}}}`), plain, "ECMAScript"},
		{mcp.KindTool, output(`{"type":"object","properties":{"a":{"pattern":"a\\-b"}}}`), plain, "ECMAScript"},

		{mcp.KindPrompt, `{"name":"a","arguments":null}`, `{"name":"a"}`, "arguments"},
		{mcp.KindPrompt, `{"name":"a","arguments":{}}`, `{"name":"a"}`, "arguments was removed: expected an array"},
		{mcp.KindPrompt, `{"name":"a","arguments":[{"name":"b","required":null},{"description":"c"},null]}`, `{"name":"a","arguments":[{"name":"b"}]}`, "arguments[2]"},

		{mcp.KindResource, `{"uri":"a:b","title":null,"size":"12","mimeType":null,"name":"n"}`, `{"uri":"a:b","name":"n"}`, "size was removed: expected a number, found a string"},
		{mcp.KindResource, `{"uri":"a:b"}`, `{"uri":"a:b","name":"a:b"}`, "name was missing"},
		{mcp.KindResource, `{"uri":"a:b","name":null}`, `{"uri":"a:b","name":"a:b"}`, "name was missing"},
		{mcp.KindResource, `{"uri":"a:b","name":"n","size":1e400}`, `{"uri":"a:b","name":"n"}`, "expected an integer"},
		{mcp.KindResource, `{"uri":"a:b","name":"n","annotations":{"audience":["user","robot"],"priority":2,"lastModified":"2025-01-12"}}`, `{"uri":"a:b","name":"n","annotations":{"audience":["user"]}}`, "annotations.lastModified was removed: expected a time"},
		{mcp.KindResource, `{"name":"n"}`, "", "uri: it is missing"},
		{mcp.KindResourceTemplate, `{"uriTemplate":"a:{b}","mimeType":7}`, `{"uriTemplate":"a:{b}","name":"a:{b}"}`, "mimeType"},
		{mcp.KindSkill, `{"uri":"skill://a/SKILL.md","frontmatter":null}`, "", "frontmatter"},
		{mcp.KindEvent, `{"name":"a","delivery":["poll",7],"title":null}`, `{"name":"a","delivery":["poll"]}`, "delivery[1]"},
	} {
		valid, repairs, err := entrycheck.Entry(test.kind, []byte(test.entry))
		says := strings.Join(repairs, "; ")
		if err != nil {
			says = err.Error()
		}
		if string(valid) != test.want || (err != nil) != (test.want == "") || !strings.Contains(says, test.says) {
			t.Errorf("%s\nbecame %s\nwant   %s\nand it says %q, want %q", test.entry, valid, test.want, says, test.says)
		}
	}
}

// Output schemas that clients compile are kept.
func TestOutputSchemasThatCompile(t *testing.T) {
	for _, output := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":["string","null"],"nullable":true}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#/properties/a"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"$ref":"#A"},"b":{"$ref":"#/allOf/0"}},"$defs":{"A":{"$anchor":"A"}},"allOf":[true]}`,
		`{"$id":"https://e.example/a","type":"object","properties":{"a":{"$ref":"https://e.example/a"},"b":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":{}}}`,
		`{"type":"object","properties":{"a":{"$ref":"other"}},"$defs":{"A":{"$id":"other"}}}`,
		`{"type":"object","properties":{"id":{"type":"string","pattern":"^[\\w\\-.]+\\/(?:a|(?=b))(?<n>c)$"},"type":{},"required":{"format":"uint64"},"enum":{"enum":[null]}}}`,
		`{"type":"object","properties":{"a":{"default":null,"const":null,"examples":null,"x-any":7}}}`,
		`{"oneOf":[{"type":"array","items":[{},true]},{"items":false,"minItems":1.0}]}`,
	} {
		entry := `{"name":"a","inputSchema":{"type":"object"},"outputSchema":` + output + `}`
		if valid, repairs, err := entrycheck.Entry(mcp.KindTool, []byte(entry)); err != nil || string(valid) != entry {
			t.Errorf("%s\nbecame %s %q %v", entry, valid, repairs, err)
		}
	}
}

func TestRepairsAreCounted(t *testing.T) {
	entry := `{"name":"a","arguments":[` + strings.Repeat("7,", 10_000) + `7]}`
	valid, repairs, err := entrycheck.Entry(mcp.KindPrompt, []byte(entry))
	if err != nil || string(valid) != `{"name":"a","arguments":[]}` || len(repairs) != 11 || repairs[10] != "9991 more changes" {
		t.Errorf("%s %q %v", valid, repairs, err)
	}
}

func TestList(t *testing.T) {
	for _, test := range []struct{ page, want string }{
		{`{"tools":[ {"name":"a","inputSchema":{"type":"object"}} ],"ttlMs":5,"nextCursor":"c"}`, `{"tools":[ {"name":"a","inputSchema":{"type":"object"}} ],"ttlMs":5,"nextCursor":"c"}`},
		{`{"tools":[{"name":7},{"name":"a"},null],"nextCursor":null,"_meta":null}`, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`},
		{`{"tools":null}`, `{"tools":[]}`},
		{`{}`, `{"tools":[]}`},
		{`{"tools":{}}`, ``},
		{`[]`, ``},
	} {
		valid, repairs, err := entrycheck.List(mcp.KindTool, "tools", []byte(test.page))
		if string(valid) != test.want || (err != nil) != (test.want == "") || (len(repairs) == 0) != (test.page == test.want || err != nil) {
			t.Errorf("%s became %s %q %v, want %s", test.page, valid, repairs, err, test.want)
		}
	}
}

func FuzzEntry(f *testing.F) {
	for kind, entry := range whole {
		f.Add(int(kind), entry)
	}
	f.Add(int(mcp.KindTool), `{"name":"a","outputSchema":{"properties":{"a":{"$ref":"#/x","pattern":"\\","enum":[],"items":[null]}}}}`)
	f.Fuzz(func(t *testing.T, kind int, entry string) {
		valid, repairs, err := entrycheck.Entry(mcp.Kind(kind), []byte(entry))
		if err != nil || !json.Valid([]byte(entry)) {
			return
		}
		if !json.Valid(valid) || string(valid) != entry && len(repairs) == 0 {
			t.Fatalf("%s became %s %q", entry, valid, repairs)
		}
		again, repairs, err := entrycheck.Entry(mcp.Kind(kind), valid)
		if err != nil || len(repairs) > 0 || string(again) != string(valid) {
			t.Fatalf("%s became %s %q %v", valid, again, repairs, err)
		}
	})
}

// Each entry of testdata/bad.json is repaired or refused. Other tests list these entries through other packages, and to
// clients of other SDKs.
func TestBadEntries(t *testing.T) {
	data, err := os.ReadFile("testdata/bad.json")
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string][]struct {
		Entry json.RawMessage
		Kept  bool
	}
	if err := json.Unmarshal(data, &lists); err != nil {
		t.Fatal(err)
	}
	for member, kind := range map[string]mcp.Kind{
		"tools": mcp.KindTool, "prompts": mcp.KindPrompt, "resources": mcp.KindResource, "resourceTemplates": mcp.KindResourceTemplate,
	} {
		if len(lists[member]) < 10 {
			t.Errorf("%d %s", len(lists[member]), member)
		}
		for _, bad := range lists[member] {
			valid, repairs, err := entrycheck.Entry(kind, bad.Entry)
			if (err == nil) != bad.Kept || err == nil && len(repairs) == 0 {
				t.Errorf("%v %s became %s %q %v", kind, bad.Entry, valid, repairs, err)
			}
		}
	}
}

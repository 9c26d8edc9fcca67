package mirror_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/mirror"
)

// withProperties is an input schema.
func withProperties(properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` + properties + `}}`)
}

// headers are those of a schema, by what its arguments have in them.
func headers(t testing.TB, schema json.RawMessage, arguments string) []string {
	t.Helper()
	params, err := mirror.Compile(schema)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	var list []string
	for name, value := range params.All(json.RawMessage(arguments)) {
		list = append(list, name+": "+value)
	}
	return list
}

func TestCompile(t *testing.T) {
	for _, test := range []struct {
		schema    json.RawMessage
		arguments string
		want      []string
	}{
		{withProperties(`"region":{"type":"string","x-mcp-header":"Region"}`), `{"region":"eu"}`, []string{"Mcp-Param-Region: eu"}},
		{withProperties(`"n":{"x-mcp-header":"N","type":"integer"},"b":{"type":"boolean","x-mcp-header":"B"}`), `{"b":true,"n":7}`, []string{"Mcp-Param-N: 7", "Mcp-Param-B: true"}},
		{withProperties(`"m":{"type":"string","x-mcp-header":"Method"}`), `{"m":"x"}`, []string{"Mcp-Param-Method: x"}},
		{withProperties(`"m":{"type":"string","x-mcp-header":"!#$%&'*+-.^_` + "`" + `|~09azAZ"}`), `{"m":"x"}`, []string{"Mcp-Param-!#$%&'*+-.^_`|~09azaz: x"}},
		{withProperties(`"m":{"type":"string","x-mcp-header":"x"},"y":{"type":"string","x-mcp-header":"x-"},"z":{"type":"string","x-mcp-header":"-x"}`), `{"m":"1","y":"2","z":"3"}`,
			[]string{"Mcp-Param-X: 1", "Mcp-Param-X-: 2", "Mcp-Param--X: 3"}},

		// Below objects, through properties only.
		{withProperties(`"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"}}},"d":{"type":"integer","x-mcp-header":"D"}}}`),
			`{"a":{"d":1,"b":{"c":"x"},"c":"no"},"b":{"c":"no"},"c":"no"}`, []string{"Mcp-Param-C: x", "Mcp-Param-D: 1"}},
		{withProperties(`"properties":{"properties":{"properties":{"type":"string","x-mcp-header":"P"}}}`), `{"properties":{"properties":"x"}}`, []string{"Mcp-Param-P: x"}},
		{withProperties(`"":{"properties":{"a/b~c":{"type":"string","x-mcp-header":"P"}}}`), `{"":{"a/b~c":"x"}}`, []string{"Mcp-Param-P: x"}},

		// Names with escapes, in the schema and in the arguments.
		{withProperties(`"a":{"type":"str\u0069ng","\u0078-mcp-header":"\u0050"}`), `{"a":"x"}`, []string{"Mcp-Param-P: x"}},
		{json.RawMessage(`{"pr\u006fperties":{"\u00e9":{"type":"string","x-mcp-header":"E"}}}`), `{"é":"x"}`, []string{"Mcp-Param-E: x"}},
		{withProperties(`"é":{"type":"string","x-mcp-header":"E"}`), `{"\u00e9":"x"}`, []string{"Mcp-Param-E: x"}},

		// What stands beside an annotation makes no difference.
		{withProperties(`"a":{"$ref":"#/$defs/a","type":"string","enum":["x"],"x-mcp-header":"A"}`), `{"a":"x"}`, []string{"Mcp-Param-A: x"}},
		{withProperties(`"a":true,"b":{"type":"string","x-mcp-header":"B"},"c":false`), `{"a":"x","b":"y"}`, []string{"Mcp-Param-B: y"}},
		{json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}},"required":["a"],"oneOf":[{"required":["a"]}],"additionalProperties":false}`), `{"a":"y"}`, []string{"Mcp-Param-A: y"}},

		// A property with that name, and data that look like an annotation.
		{withProperties(`"x-mcp-header":{"type":"string","description":"x-mcp-header"}`), `{"x-mcp-header":"x"}`, nil},
		{withProperties(`"x-mcp-header":{"type":"string","x-mcp-header":"X"}`), `{"x-mcp-header":"x"}`, []string{"Mcp-Param-X: x"}},
		{withProperties(`"a":{"const":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":""}],"default":{"x-mcp-header":1},"examples":[{"x-mcp-header":null}]}`), `{"a":"x"}`, nil},
		{json.RawMessage(`{"required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["a"]},"dependencies":{"x-mcp-header":["a"]},"$defs":{"x-mcp-header":{}}}`), `{"a":"x"}`, nil},
	} {
		if got := headers(t, test.schema, test.arguments); !slices.Equal(got, test.want) {
			t.Errorf("%s of %s: %q, want %q", test.schema, test.arguments, got, test.want)
		}
	}
}

// Schemas without annotations have no Params, and few of them are read.
func TestCompileWithoutAnnotations(t *testing.T) {
	for _, schema := range []string{
		"", "null", "true", "{}", `{"type":"object"}`, "not JSON", `{"type":"object",`, `{"a":1,"a":2}`, `"\u00"`, `"\u00zz"`, `\u00`, `\u007`, `"\u00e9\u003c`,
		`{"description":"x-mcp-header"}`, `{"properties":{"x-mcp-header":true}}`, `"\\u0078-mcp-header"`,
	} {
		if params, err := mirror.Compile(slices.Clip(json.RawMessage(schema))); params != nil || err != nil {
			t.Errorf("%s: %v, %v, want neither", schema, params, err)
		}
	}
}

// The first ten are refused by the conformance suite of the protocol, too.
func TestCompileRefuses(t *testing.T) {
	inTree := func(before, after string) json.RawMessage {
		return json.RawMessage(`{"type":"object",` + before + `{"type":"string","x-mcp-header":"A"}` + after + `}`)
	}
	const primitive = `needs "type":"string", "integer" or "boolean"`
	for _, test := range []struct {
		schema          json.RawMessage
		pointer, reason string
	}{
		{withProperties(`"value":{"type":"string","x-mcp-header":""}`), "/properties/value", "is not empty"},
		{withProperties(`"data":{"type":"object","x-mcp-header":"Data"}`), "/properties/data", primitive},
		{withProperties(`"items":{"type":"array","items":{"type":"string"},"x-mcp-header":"Items"}`), "/properties/items", primitive},
		{withProperties(`"nil":{"type":"null","x-mcp-header":"Nil"}`), "/properties/nil", primitive},
		{withProperties(`"field1":{"type":"string","x-mcp-header":"Region"},"field2":{"type":"string","x-mcp-header":"Region"}`), "/properties/field2", "another property has the header Mcp-Param-Region"},
		{withProperties(`"field1":{"type":"string","x-mcp-header":"MyField"},"field2":{"type":"string","x-mcp-header":"myfield"}`), "/properties/field2", "another property has the header Mcp-Param-Myfield"},
		{withProperties(`"value":{"type":"string","x-mcp-header":"My Region"}`), "/properties/value", `not of ' '`},
		{withProperties(`"value":{"type":"string","x-mcp-header":"Region:Primary"}`), "/properties/value", `not of ':'`},
		{withProperties(`"value":{"type":"string","x-mcp-header":"Région"}`), "/properties/value", `not of '\u00e9'`},
		{withProperties(`"value":{"type":"string","x-mcp-header":"Region\t1"}`), "/properties/value", `not of '\t'`},

		{withProperties(`"v":{"type":"string","x-mcp-header":"a\r\nHost: evil"}`), "/properties/v", `not of '\r'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"a\u0000"}`), "/properties/v", `not of '\x00'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"a\u007f"}`), "/properties/v", `not of '\x7f'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"a/b"}`), "/properties/v", `not of '/'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"\uff21"}`), "/properties/v", `not of '\uff21'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"\u212a"}`), "/properties/v", `not of '\u212a'`}, // lower case: k
		{withProperties(`"v":{"type":"string","x-mcp-header":"` + strings.Repeat("a", mirror.MaxParamName+1) + `"}`), "/properties/v", "at most 256 bytes"},
		{withProperties(`"v":{"type":"string","x-mcp-header":7}`), "/properties/v", "a string, not a number"},
		{withProperties(`"v":{"type":"string","x-mcp-header":null}`), "/properties/v", "a string, not null"},
		{withProperties(`"v":{"type":"string","x-mcp-header":false}`), "/properties/v", "a string, not a boolean"},
		{withProperties(`"v":{"type":"string","x-mcp-header":["A"]}`), "/properties/v", "a string, not an array"},
		{withProperties(`"v":{"type":"string","x-mcp-header":{"name":"A"}}`), "/properties/v", "a string, not an object"},
		{withProperties(`"v":{"type":"number","x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":["string"],"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":["string","null"],"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":"String","x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"$ref":"#/$defs/v","x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"enum":["a"],"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":"object","properties":{"w":{"type":"string","x-mcp-header":"A"}},"x-mcp-header":"B"}`), "/properties/v", primitive},
		{withProperties(`"a/b":{"properties":{"c~":{"type":"string","x-mcp-header":""}}}`), "/properties/a~1b/properties/c~0", "is not empty"},
		{withProperties(`"v":{"type":"string","\u0078\u002d\u006d\u0063\u0070\u002d\u0068\u0065\u0061\u0064\u0065\u0072":""}`), "/properties/v", "is not empty"},
		{withProperties(`"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}`), "/properties/b/properties/c", "another property"},

		// Where no chain of properties leads.
		{json.RawMessage(`{"type":"object","x-mcp-header":"A"}`), "", "only a property"},
		{json.RawMessage(`{"type":"string","x-mcp-header":"A"}`), "", "only a property"},
		{inTree(`"items":`, ``), "/items", `through "items"`},
		{inTree(`"items":[`, `]`), "/items/0", `through "items"`},
		{inTree(`"prefixItems":[true,`, `]`), "/prefixItems/1", `through "prefixItems"`},
		{inTree(`"contains":`, ``), "/contains", `through "contains"`},
		{inTree(`"additionalItems":`, ``), "/additionalItems", `through "additionalItems"`},
		{inTree(`"unevaluatedItems":`, ``), "/unevaluatedItems", `through "unevaluatedItems"`},
		{inTree(`"additionalProperties":`, ``), "/additionalProperties", `through "additionalProperties"`},
		{inTree(`"unevaluatedProperties":`, ``), "/unevaluatedProperties", `through "unevaluatedProperties"`},
		{inTree(`"patternProperties":{"properties":`, `}`), "/patternProperties/properties", `through "patternProperties"`},
		{inTree(`"propertyNames":`, ``), "/propertyNames", `through "propertyNames"`},
		{inTree(`"dependentSchemas":{"a":`, `}`), "/dependentSchemas/a", `through "dependentSchemas"`},
		{inTree(`"dependencies":{"a":`, `}`), "/dependencies/a", `through "dependencies"`},
		{inTree(`"contentSchema":`, ``), "/contentSchema", `through "contentSchema"`},
		{inTree(`"oneOf":[{},`, `]`), "/oneOf/1", `through "oneOf"`},
		{inTree(`"anyOf":[`, `]`), "/anyOf/0", `through "anyOf"`},
		{inTree(`"allOf":[{"properties":{"a":`, `}}]`), "/allOf/0/properties/a", `through "allOf"`},
		{inTree(`"not":`, ``), "/not", `through "not"`},
		{inTree(`"if":{"properties":{"a":`, `}}`), "/if/properties/a", `through "if"`},
		{inTree(`"then":{"properties":{"a":`, `}}`), "/then/properties/a", `through "then"`},
		{inTree(`"else":`, ``), "/else", `through "else"`},
		{inTree(`"$defs":{"a":`, `}`), "/$defs/a", `through "$defs"`},
		{inTree(`"$defs":{"properties":{"properties":{"a":`, `}}}`), "/$defs/properties/properties/a", `through "$defs"`},
		{inTree(`"definitions":{"a":`, `}`), "/definitions/a", `through "definitions"`},
		{inTree(`"properties":{"a":{"items":{"properties":{"b":`, `}}}}`), "/properties/a/items/properties/b", `through "items"`},
		{inTree(`"properties":{"a":{"properties":{"properties":{"anyOf":[`, `]}}}}`), "/properties/a/properties/properties/anyOf/0", `through "anyOf"`},
		{inTree(`"x-own":`, ``), "/x-own", `through "x-own"`},
		{inTree(`"properties":{"a":{"x-mcp-header ":`, `}}`), "/properties/a/x-mcp-header ", `through "x-mcp-header "`},
	} {
		params, err := mirror.Compile(test.schema)
		var refused *mirror.AnnotationError
		if !errors.As(err, &refused) || params != nil {
			t.Errorf("%s: %v, %v, want an AnnotationError", test.schema, params, err)
			continue
		}
		if refused.Pointer != test.pointer || !strings.Contains(refused.Reason, test.reason) {
			t.Errorf("%s:\n got %s, %s\nwant %s, %s", test.schema, refused.Pointer, refused.Reason, test.pointer, test.reason)
		}
	}
}

// Schemas that readers may understand differently are refused.
func TestCompileRefusesBadJSON(t *testing.T) {
	for _, text := range []string{
		`"x-mcp-header`, `{"x-mcp-header":}`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"}}`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`,
		`{"x-own":[{"x-mcp-header":]}`, `{"x-own":["x-mcp-header",]}`, strings.Repeat(`{"properties":{"a":`, 600) + `{"type":"string","x-mcp-header":"A"}` + strings.Repeat("}}", 600),
	} {
		if params, err := mirror.Compile(json.RawMessage(text)); !errors.As(err, new(*jsonscan.SyntaxError)) || params != nil {
			t.Errorf("%.100s: %v, %v", text, params, err)
		}
	}
	for _, text := range []string{
		`{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A","type":"array"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"\u0061":{}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{}}`,
	} {
		if params, err := mirror.Compile(json.RawMessage(text)); !errors.As(err, new(*jsonscan.DuplicateError)) || params != nil {
			t.Errorf("%s: %v, %v", text, params, err)
		}
	}
}

func TestMaxParams(t *testing.T) {
	schema := func(n int) json.RawMessage {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"P%d"}`, i, i))
		}
		return withProperties(strings.Join(list, ","))
	}
	if got := headers(t, schema(mirror.MaxParams), `{"p0":"a","p127":"z"}`); !slices.Equal(got, []string{"Mcp-Param-P0: a", "Mcp-Param-P127: z"}) {
		t.Errorf("got %q", got)
	}
	if _, err := mirror.Compile(schema(mirror.MaxParams + 1)); err == nil || !strings.Contains(err.Error(), "at most 128 headers") {
		t.Errorf("got %v", err)
	}
	name := strings.Repeat("a", mirror.MaxParamName)
	if got := headers(t, withProperties(`"v":{"type":"string","x-mcp-header":"`+name+`"}`), `{"v":"x"}`); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// Names are those under which net/http files headers.
func TestCanonicalNames(t *testing.T) {
	want := map[string]bool{}
	var list []string
	for i, name := range []string{"a", "ABC", "x-y-Z", "-", "--a", "1a-b", "~x", "WWW-authenticate", "Authorization", "Host", "a_b.c"} {
		list = append(list, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":%q}`, i, name))
		want[http.CanonicalHeaderKey("Mcp-Param-"+name)] = true
	}
	params, err := mirror.Compile(withProperties(strings.Join(list, ",")))
	if err != nil {
		t.Fatal(err)
	}
	arguments := `{"p0":"","p1":"","p2":"","p3":"","p4":"","p5":"","p6":"","p7":"","p8":"","p9":"","p10":""}`
	got := map[string]bool{}
	for name := range params.All(json.RawMessage(arguments)) {
		got[name] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestEnumForms(t *testing.T) {
	three := 3
	plain := []mcp.EnumOption{{Value: "r"}, {Value: "g"}}
	titled := []mcp.EnumOption{{Value: "r", Title: "Red"}, {Value: "g", Title: "Green"}}
	for _, test := range []struct {
		json string
		want *mcp.EnumSchema
	}{
		{`{"type":"string","enum":["r","g"]}`, &mcp.EnumSchema{Options: plain}},
		{`{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`, &mcp.EnumSchema{Options: titled, EnumNames: true}},
		{`{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"r"}`, &mcp.EnumSchema{Options: titled, Default: []string{"r"}}},
		{`{"type":"array","items":{"type":"string","enum":["r","g"]},"maxItems":3}`, &mcp.EnumSchema{Options: plain, Multiple: true, MaxItems: &three}},
		{`{"type":"array","items":{"anyOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]},"default":["r","g"]}`, &mcp.EnumSchema{Options: titled, Multiple: true, Default: []string{"r", "g"}}},
	} {
		schema, err := mcp.ParseElicitSchema([]byte(`{"type":"object","properties":{"c":` + test.json + `}}`))
		if err != nil {
			t.Errorf("%s: %v", test.json, err)
			continue
		}
		if diff := cmp.Diff(mcp.PrimitiveSchema(test.want), schema.Fields[0].Schema); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.json, diff)
		}
		if got := appended(t, test.want); !equalJSON(t, got, []byte(test.json)) {
			t.Errorf("%s goes out as %s", test.json, got)
		}
	}
	if _, err := (&mcp.EnumSchema{Options: plain, Default: []string{"r", "g"}}).MarshalJSON(); err == nil {
		t.Error("two defaults for one choice are sent")
	}
}

const form = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
	"name":{"type":"string","minLength":2,"maxLength":3,"default":"Bo"},
	"age":{"type":"integer","minimum":0,"maximum":150,"default":30},
	"height":{"type":"number"},
	"news":{"type":"boolean","default":false},
	"size":{"type":"string","enum":["S","M"],"default":"M"},
	"toppings":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1,"maxItems":2,"default":["a"]},
	"later":{"type":"color"}
},"required":["name"]}`

func TestElicitSchemaKeepsItsOrder(t *testing.T) {
	schema, err := mcp.ParseElicitSchema([]byte(form))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, field := range schema.Fields {
		names = append(names, field.Name)
	}
	if diff := cmp.Diff([]string{"name", "age", "height", "news", "size", "toppings", "later"}, names); diff != "" {
		t.Error(diff)
	}
	if got := appended(t, schema); !equalJSON(t, got, []byte(form)) {
		t.Errorf("it goes out as %s", got)
	}
}

func TestElicitSchemaCheck(t *testing.T) {
	schema, err := mcp.ParseElicitSchema([]byte(form))
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		`{"name":"Ada"}`: "",
		`{"name":"Ada","age":36.0,"height":1.7,"news":true,"size":"S","toppings":["b","a"],"later":[]}`: "",
		`{"name":"日本語"}`:                    "",
		`[]`:                                "mcp: expected an object, got an array",
		`{}`:                                "mcp: at /name: expected a value, since the field is required, got nothing",
		`{"name":7}`:                        "mcp: at /name: expected a string, got a number",
		`{"name":"A"}`:                      "mcp: at /name: expected at least 2 characters, got 1",
		`{"name":"Adam"}`:                   "mcp: at /name: expected at most 3 characters, got 4",
		`{"name":"Ada","age":1.5}`:          "mcp: at /age: expected an integer, got 1.5",
		`{"name":"Ada","age":-1}`:           "mcp: at /age: expected at least 0, got -1",
		`{"name":"Ada","age":151}`:          "mcp: at /age: expected at most 150, got 151",
		`{"name":"Ada","height":"1.7"}`:     "mcp: at /height: expected a number, got a string",
		`{"name":"Ada","news":"yes"}`:       "mcp: at /news: expected a boolean, got a string",
		`{"name":"Ada","size":"L"}`:         `mcp: at /size: expected one of S, M, got "L"`,
		`{"name":"Ada","toppings":[]}`:      "mcp: at /toppings: expected at least 1 options, got 0",
		`{"name":"Ada","toppings":["a",1]}`: "mcp: at /toppings/1: expected a string, got a number",
		`{"name":"Ada","toppings":"a"}`:     "mcp: at /toppings: expected an array, got a string",
		`{"name":"Ada","a/b":1}`:            "",
		`{"name":"Ada","age":null}`:         "",
		`{"name":null}`:                     "mcp: at /name: expected a string, got null",
	} {
		got := ""
		if err := schema.Check(json.RawMessage(content)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", content, got, want)
		}
	}
}

func TestElicitSchemaCheckOfOtherMembers(t *testing.T) {
	schema, err := mcp.ParseElicitSchema([]byte(`{"type":"object","properties":{"a":{"type":"string"}},"$schema":"x","additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Check([]byte(`{"a":"x"}`)); err != nil {
		t.Error(err)
	}
	if err := schema.Check([]byte(`{"a/b":1}`)); err == nil || err.Error() != "mcp: at /a~1b: expected no such member, got a number" {
		t.Error(err)
	}
}

func TestApplyElicitDefaults(t *testing.T) {
	for content, want := range map[string]string{
		``:               `{"age":30,"news":false,"size":"M","toppings":["a"]}`,
		`{}`:             `{"age":30,"news":false,"size":"M","toppings":["a"]}`,
		`{"name" : "X"}`: `{"name" : "X","age":30,"news":false,"size":"M","toppings":["a"]}`,
		`{"age":null,"news":true,"size":"S","toppings":[]}`: `{"age":null,"news":true,"size":"S","toppings":[]}`,
	} {
		var given json.RawMessage
		if content != "" {
			given = json.RawMessage(content)
		}
		got, err := mcp.ApplyElicitDefaults(json.RawMessage(form), given)
		if err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v", content, got, err)
		}
	}
	for _, schema := range []string{``, `[]`, `{"properties":[]}`, `{"properties":{"a":1}}`} {
		if got, err := mcp.ApplyElicitDefaults(json.RawMessage(schema), nil); err == nil {
			t.Errorf("%q is taken as a schema: %s", schema, got)
		}
	}
}

func TestElicitSchemaErrors(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"array","properties":{}}`:                                    `mcp: at /type: expected "object", got "array"`,
		`{"type":"object"}`:                                                   ``,
		`{"type":"object","properties":{"a/b":{}}}`:                           `mcp: at /properties/a~1b/type: expected the name of a type, got nothing`,
		`{"type":"object","properties":{"a":{"type":"string","title":1}}}`:    `mcp: at /properties/a/title: expected a string, got a number`,
		`{"type":"object","properties":{"a":{"type":"string","enum":[1]}}}`:   `mcp: at /properties/a/enum/0: expected a string, got a number`,
		`{"type":"object","properties":{"a":{"type":"number","minimum":""}}}`: `mcp: at /properties/a/minimum: expected a number, got a string`,
	} {
		_, err := mcp.ParseElicitSchema([]byte(schema))
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
}

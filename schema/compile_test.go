package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/schema"
)

func TestCompileErrors(t *testing.T) {
	items := func(n int) string {
		return strings.Repeat(`{"items":`, n) + `{}` + strings.Repeat(`}`, n)
	}
	tests := map[string]struct{ schema, pointer, reason string }{
		"nothing":       {``, "", "invalid JSON"},
		"quote alone":   {`"`, "", "invalid JSON"},
		"string":        {`"a"`, "", `expected an object or a boolean, got the string "a"`},
		"null":          {`null`, "", "expected an object or a boolean, got null"},
		"cut off":       {`{"type":`, "", "invalid JSON"},
		"twice":         {`{"type":"string","type":"number"}`, "/type", "given twice"},
		"type":          {`{"properties":{"a/b":{"type":"strin"}}}`, "/properties/a~1b/type", `there is no type "strin"`},
		"required":      {`{"required":["a","a"]}`, "/required", "given twice"},
		"count":         {`{"minLength":-1}`, "/minLength", "expected a whole number, got -1"},
		"multipleOf":    {`{"multipleOf":0}`, "/multipleOf", "expected more than 0"},
		"not a schema":  {`{"items":7}`, "/items", "expected a schema, got the number 7"},
		"general":       {`{"anyOf":{}}`, "/anyOf", "expected an array, got an object"},
		"look-ahead":    {`{"pattern":"(?=x)"}`, "/pattern", "RE2 (package regexp) does not support this pattern"},
		"look-ahead 2":  {`{"patternProperties":{"(?=x)":{}}}`, "/patternProperties", "RE2 (package regexp) does not support this pattern"},
		"nowhere":       {`{"$ref":"#/nowhere"}`, "/$ref", `there is nothing at "#/nowhere"`},
		"http":          {`{"$ref":"http://169.254.169.254/x"}`, "", "never fetched"},
		"file":          {`{"$ref":"file:///etc/passwd"}`, "", "never fetched"},
		"relative":      {`{"$ref":"other"}`, "", "never fetched"},
		"draft-04":      {`{"$schema":"http://json-schema.org/draft-04/schema#"}`, "/$schema", "not supported"},
		"2019-09":       {`{"$schema":"https://json-schema.org/draft/2019-09/schema"}`, "/$schema", "not supported"},
		"own dialect":   {`{"$schema":"http://localhost/schema"}`, "/$schema", "not supported"},
		"inner dialect": {`{"properties":{"a":{"$id":"x:y","$schema":"http://json-schema.org/draft-04/schema#"}}}`, "/properties/a/$schema", "not supported"},
		"loop":          {`{"$ref":"#"}`, "", "without end"},
		"loop of two":   {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "", "without end"},
		"loop by allOf": {`{"allOf":[{"not":{"$ref":"#"}}]}`, "", "without end"},
		"exponent":      {`{"minimum":1e401}`, "/minimum", "exponent"},
		"digits":        {`{"minimum":` + strings.Repeat("1", 1001) + `}`, "/minimum", "1000 digits"},
		"depth":         {items(129), strings.Repeat("/items", 129), "nested 128 deep"},
		"general depth": {`{"not":` + items(128) + `}`, "/not" + strings.Repeat("/items", 128), "nested 128 deep"},
		"bytes":         {`{"description":"` + strings.Repeat("x", schema.MaxSchemaBytes) + `"}`, "", "262144 bytes"},
		"many":          {`{"properties":{` + joined(10_001, `"p%d":{}`) + `}}`, "/properties/p9999", "10000 schemas"},
		"many, general": {`{"not":{},"properties":{` + joined(10_001, `"p%d":{}`) + `}}`, "/properties/p9999", "10000 schemas"},
		"searching":     {`{"x-a":[` + strings.Repeat(`{},`, 4000) + `{}],"properties":{` + refs(4000) + `}}`, "", "too many references"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Compile(json.RawMessage(test.schema), nil)
			var invalid *schema.CompileError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want a CompileError", err)
			}
			if name != "searching" && invalid.Pointer != test.pointer || !strings.Contains(invalid.Reason, test.reason) {
				t.Errorf("got  %v\nwant at %q: %s", err, test.pointer, test.reason)
			}
		})
	}
}

// refs returns members that refer to the items of x-a.
func refs(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"p%d":{"$ref":"#/x-a/%d"}`, i, i)
	}
	return strings.Join(list, ",")
}

// joined returns n numbered texts, separated by commas.
func joined(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ",")
}

func TestCompileTakes(t *testing.T) {
	for name, text := range map[string]string{
		"true":             `true`,
		"spaces":           " { \"type\" : \"string\" } \n",
		"annotations":      `{"title":"t","description":"d","default":7,"examples":[],"deprecated":true,"$comment":"c","format":"email","x-mcp-header":"H"}`,
		"depth":            strings.Repeat(`{"items":`, 128) + `{}` + strings.Repeat(`}`, 128),
		"definitions":      `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","definitions":{"a":{"type":"string"}}}`,
		"recursive":        `{"properties":{"a":{"$ref":"#"}}}`,
		"escaped pointer":  `{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"type":"string"}}}`,
		"unknown keyword":  `{"unheardOf":{"type":"string"}}`,
		"many fine digits": `{"multipleOf":0.12345678901234567890}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schema.Compile(json.RawMessage(text), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// The target of a reference need not be the value of a keyword for schemas.
func TestReferencesToReferences(t *testing.T) {
	v := compile(t, `{"$ref":"#/x-a","x-a":{"$ref":"#/x-b"},"x-b":{"$ref":"#/x-c"},"x-c":{"type":"string"}}`)
	if err := v.Validate(t.Context(), []byte(`1`)); err == nil || v.Validate(t.Context(), []byte(`"x"`)) != nil {
		t.Errorf("got %v, want an error for 1 only", err)
	}
}

// Ordinary tool schemas must not need the general validator, which is slower.
func TestCompileToNodes(t *testing.T) {
	for text, general := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":["string","null"],"format":"date"}},"additionalProperties":{"$ref":"#/$defs/x"},"$defs":{"x":true}}`: false,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{}}}`:     false,
		`{"type":"array","prefixItems":[{}],"items":{"enum":[1]},"uniqueItems":true}`:                                                                    false,
		`{"anyOf":[{}]}`:                true,
		`{"patternProperties":{"":{}}}`: false,
		`{"not":{"items":true}}`:        true,
	} {
		v, err := schema.Compile(json.RawMessage(text), nil)
		if err != nil || schema.IsGeneral(v) != general {
			t.Errorf("%s: general should be %t, error %v", text, general, err)
		}
	}
}

func TestResources(t *testing.T) {
	opts := &schema.CompileOptions{Resources: map[string]json.RawMessage{
		"https://example.com/name":   json.RawMessage(`{"type":"string","minLength":2}`),
		"https://example.com/broken": json.RawMessage(`{"type":"strin"}`),
	}}
	v, err := schema.Compile(json.RawMessage(`{"properties":{"name":{"$ref":"https://example.com/name"}}}`), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Validate(t.Context(), []byte(`{"name":"x"}`)); err == nil || err.Error() != `at "/name": expected at least 2 characters, got 1 character` {
		t.Error(err)
	}
	_, err = schema.Compile(json.RawMessage(`{"$ref":"https://example.com/broken"}`), opts)
	if _, ok := err.(*schema.CompileError); !ok {
		t.Errorf("got %v, want a CompileError", err)
	}
}

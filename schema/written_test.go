package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/dovetail-go/dovetail/schema"
)

type stop struct {
	Name  string  `json:"name"`
	Note  *string `json:"note"`
	Short *string `json:"short,omitempty"`
	Level *level  `json:"level" jsonschema:"enum=1"`
	Next  *stop   `json:"next"`
	Item  *item   `json:"item" jsonschema_description:"once"`
	Count *int    `json:"count,string"`
	Must  *bool   `json:"must" jsonschema:"required"`
	Any   *any    `json:"any"`
	List  *[]int  `json:"list"`
	Tag   fmt.Stringer
	*opaqueBase
}

// TestForWritten: a schema of what is written promises no more than is written.
func TestForWritten(t *testing.T) {
	written := func() (json.RawMessage, error) { return schema.ForWritten(reflect.TypeFor[stop]()) }
	check(t, written, object(`"name":{"type":"string"},"note":{"type":["string","null"]},"short":{"type":"string"},`+
		`"level":{"type":["integer","null"],"enum":[1,null]},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},`+
		`"item":{"type":["object","null"],"description":"once","properties":{"N":{"type":"integer"}},"required":["N"],"additionalProperties":false},`+
		`"count":{"type":["string","null"],"pattern":"^-?(0|[1-9][0-9]*)$"},"must":{"type":["boolean","null"]},"any":{},`+
		`"list":{"type":["array","null"],"items":{"type":"integer"}},"Tag":{},"o":{"type":"integer"}`, `"name","must","Tag"`))
	raw, err := written()
	if err != nil {
		t.Fatal(err)
	}
	validator, err := schema.Compile(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, text, yes, rank, anything := 1, "x", true, level(1), any(7)
	for _, value := range []stop{
		{}, {Next: &stop{}},
		{"x", &text, &text, &rank, &stop{}, &item{}, &one, &yes, &anything, &[]int{1}, nil, &opaqueBase{}},
	} {
		encoded, err := jsonv2.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := validator.Validate(encoded); err != nil {
			t.Errorf("%s does not fit: %v", encoded, err)
		}
	}
	// What is read need not take all that.
	if _, err := schema.For[stop](); err == nil || err.Error() != "schema: stop.Tag: nothing can be read into fmt.Stringer, an interface with methods" {
		t.Errorf("the error is %v", err)
	}
}

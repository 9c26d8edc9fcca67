package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/schema"
)

const coercible = `{
	"type": "object",
	"properties": {
		"count": {"type": "integer"}, "ratio": {"type": "number"}, "sure": {"type": "boolean"}, "name": {"type": "string"},
		"names": {"type": "array", "items": {"type": "string"}}, "counts": {"type": "array", "items": {"type": "integer"}},
		"pair": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}},
		"grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
		"either": {"type": ["integer", "string"]}, "maybe": {"type": ["integer", "null"]}, "any": {}, "one": {"enum": [1, 2]},
		"tree": {"$ref": "#/$defs/tree"}, "list": {"$ref": "#/$defs/list"}
	},
	"patternProperties": {"^n_": {"type": "number"}},
	"additionalProperties": {"type": "boolean"},
	"$defs": {
		"tree": {"type": "object", "properties": {"size": {"type": "integer"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
		"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}
	}
}`

// Values of another type get the type of the schema where their meaning is plain, and stay byte for byte otherwise.
func TestCoerce(t *testing.T) {
	v, err := schema.Compile(json.RawMessage(coercible), nil)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		`{"count":"42"}`:               `{"count":42}`,
		`{"count":"-4.0e1"}`:           `{"count":-4.0e1}`,
		`{"count":"\u0034"}`:           `{"count":4}`,
		`{"count":"4 2"}`:              `{"count":"4 2"}`,
		`{"count":" 42"}`:              `{"count":" 42"}`,
		`{"count":"042"}`:              `{"count":"042"}`,
		`{"count":"0x2A"}`:             `{"count":"0x2A"}`,
		`{"count":"NaN"}`:              `{"count":"NaN"}`,
		`{"count":""}`:                 `{"count":""}`,
		`{"count":true}`:               `{"count":true}`,
		`{"count":null}`:               `{"count":null}`,
		`{"count":"null"}`:             `{"count":"null"}`,
		`{"ratio":"0.5"}`:              `{"ratio":0.5}`,
		`{"sure":"true","ratio":"1"}`:  `{"sure":true,"ratio":1}`,
		`{"sure":"yes"}`:               `{"sure":"yes"}`,
		`{"sure":1}`:                   `{"sure":1}`,
		`{"name":42}`:                  `{"name":42}`,
		`{"name":"42"}`:                `{"name":"42"}`,
		`{"names":"a"}`:                `{"names":["a"]}`,
		`{"names": "a" , "count":1}`:   `{"names": ["a"] , "count":1}`,
		`{"names":["a"]}`:              `{"names":["a"]}`,
		`{"names":null}`:               `{"names":null}`,
		`{"counts":"42"}`:              `{"counts":[42]}`,
		`{"counts":["42",7]}`:          `{"counts":[42,7]}`,
		`{"pair":"1"}`:                 `{"pair":[1]}`,
		`{"pair":["1","true"]}`:        `{"pair":[1,true]}`,
		`{"grid":[1,["2"]]}`:           `{"grid":[[1],[2]]}`,
		`{"grid":1}`:                   `{"grid":[1]}`,
		`{"either":"42"}`:              `{"either":"42"}`,
		`{"maybe":"42"}`:               `{"maybe":42}`,
		`{"any":"42"}`:                 `{"any":"42"}`,
		`{"one":"1"}`:                  `{"one":"1"}`,
		`{"n_x":"1.5","other":"true"}`: `{"n_x":1.5,"other":true}`,
		`{"tree":{"parts":{"size":"1","parts":["x"]}}}`: `{"tree":{"parts":[{"size":1,"parts":["x"]}]}}`,
		`{"list":1}`:    `{"list":[1]}`,
		`{"count":"42"`: `{"count":"42"`,
		`[]`:            `[]`,
		``:              ``,
	} {
		got, err := v.Coerce(json.RawMessage(given))
		if err != nil || string(got) != want {
			t.Errorf("%s became %s, %v, want %s", given, got, err, want)
		}
	}
}

// A schema that needs the general validator still has types at the places that it names.
func TestCoerceWithGeneralSchema(t *testing.T) {
	v, err := schema.Compile(json.RawMessage(`{"type":"object","properties":{"count":{"type":"integer"},"x":{"anyOf":[{"type":"integer"},{"type":"boolean"}]}},"not":{"required":["y"]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Coerce(json.RawMessage(`{"count":"42","x":"1"}`))
	if err != nil || string(got) != `{"count":42,"x":"1"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// Coercing is bounded like validating.
func TestCoerceIsBounded(t *testing.T) {
	v, err := schema.Compile(json.RawMessage(`{"type":"array","items":{"type":"array"}}`), &schema.CompileOptions{MaxWork: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Coerce(json.RawMessage("[" + strings.Repeat("1,", 100_000) + "1]")); !isBudgetError(err) {
		t.Errorf("got %v", err)
	}
}

func isBudgetError(err error) bool {
	_, ok := errors.AsType[*schema.BudgetError](err)
	return ok
}

// FuzzCoerce checks that a value that the schema accepts is not changed, and that JSON stays JSON.
func FuzzCoerce(f *testing.F) {
	v, err := schema.Compile(json.RawMessage(coercible), nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{"count":"42"}`, `{"names":"a"}`, `{"grid":[1,["2"]]}`, `{"tree":{"parts":{"size":"1"}}}`, `{"list":[[1]]}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, instance []byte) {
		got, err := v.Coerce(instance)
		if err != nil {
			return
		}
		if v.Validate(t.Context(), instance) == nil && !bytes.Equal(got, instance) {
			t.Errorf("the valid %s became %s", instance, got)
		}
		if jsonscan.Valid(instance) == nil && jsonscan.Valid(got) != nil {
			t.Errorf("%s became %s", instance, got)
		}
	})
}

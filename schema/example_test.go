package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/dovetail-go/dovetail/schema"
)

type Search struct {
	Query string   `json:"query" jsonschema_description:"search terms" jsonschema:"minLength=1"`
	Limit int      `json:"limit" jsonschema:"default=10,minimum=1,maximum=100"`
	Sort  string   `json:"sort,omitempty" jsonschema:"enum=newest,enum=oldest"`
	Tags  []string `json:"tags,omitempty"`
}

func ExampleFor() {
	type Point struct {
		X float64 `json:"x" jsonschema_description:"to the right"`
		Y float64 `json:"y,omitempty"`
	}
	raw, err := schema.For[Point]()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(raw))
	// Output:
	// {"type":"object","properties":{"x":{"type":"number","description":"to the right"},"y":{"type":"number"}},"required":["x"],"additionalProperties":false}
}

func ExampleForType() {
	raw, err := schema.ForType(reflect.TypeFor[map[string][]int8]())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(raw))
	// Output:
	// {"type":"object","additionalProperties":{"type":"array","items":{"type":"integer","minimum":-128,"maximum":127}}}
}

func ExampleForOutput() {
	type Parcel struct {
		To   string  `json:"to"`
		Sent *string `json:"sent"`
	}
	raw, err := schema.ForOutput(reflect.TypeFor[Parcel]())
	fmt.Println(string(raw), err)
	// Output:
	// {"type":"object","properties":{"to":{"type":"string"},"sent":{"type":["string","null"]}},"required":["to"],"additionalProperties":false} <nil>
}

func ExampleCompile() {
	v, err := schema.Compile(json.RawMessage(`{
		"type": "object",
		"properties": {"limit": {"type": "integer", "maximum": 100}},
		"additionalProperties": false
	}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.Validate(context.Background(), []byte(`{"limit": 1e2}`)))
	fmt.Println(v.Validate(context.Background(), []byte(`{"limit": 500, "colour": "red"}`)))
	// Output:
	// <nil>
	// at "/limit": expected at most 100, got 500
	// at "/colour": unknown member; accepted: limit
}

func ExampleNewDecoder() {
	decoder, err := schema.NewDecoder[Search](nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	search, err := decoder.Decode(context.Background(), json.RawMessage(`{"query":"joints"}`))
	fmt.Println(search.Query, search.Limit, err)

	_, err = decoder.Decode(context.Background(), json.RawMessage(`{"querry":"joints","limit":0,"sort":"up"}`))
	fmt.Println(err)
	// Output:
	// joints 10 <nil>
	// at "/querry": unknown member; accepted: query, limit, sort, tags
	// at "/limit": expected at least 1, got 0
	// at "/sort": expected one of "newest", "oldest", got "up"
	// missing "query" (accepted: query, limit, sort, tags)
}

func ExampleDecode() {
	search, err := schema.Decode[Search](context.Background(), json.RawMessage(`{"query":"joints","limit":20}`))
	fmt.Println(search.Query, search.Limit, err)
	// Output:
	// joints 20 <nil>
}

// Colour is the name of a colour.
type Colour string

func (Colour) EnumValues() []Colour { return []Colour{"red", "green"} }

func ExampleFor_enumValues() {
	raw, err := schema.For[Colour]()
	fmt.Println(string(raw), err)
	// Output:
	// {"type":"string","enum":["red","green"]} <nil>
}

// IBAN is an account number.
type IBAN string

func (IBAN) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"}`)
}

func ExampleSchemaProvider() {
	raw, err := schema.For[struct {
		To IBAN `json:"to" jsonschema_description:"who is paid"`
	}]()
	fmt.Println(string(raw), err)
	// Output:
	// {"type":"object","properties":{"to":{"type":"string","pattern":"^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$","description":"who is paid"}},"required":["to"],"additionalProperties":false} <nil>
}

func ExampleNewTypeDecoder() {
	decoder, err := schema.NewTypeDecoder(reflect.TypeFor[Search](), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var search Search
	err = decoder.Decode(context.Background(), json.RawMessage(`{"query":"joints"}`), &search)
	fmt.Println(search.Query, search.Limit, err)
	// Output: joints 10 <nil>
}

// Two validators share 1 MiB.
func ExampleNewMemory() {
	shared := schema.NewMemory(1 << 20)
	for _, text := range []string{`{"type":"string"}`, `{"type":"integer"}`} {
		validator, err := schema.Compile(json.RawMessage(text), &schema.CompileOptions{Memory: shared})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(validator.Validate(context.Background(), []byte(`7`)))
	}
	// Output:
	// expected a string, got the number 7
	// <nil>
}

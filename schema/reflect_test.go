package schema_test

import (
	"encoding/json"
	"fmt"
	"image"
	"log/slog"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/schema"
)

type (
	base struct {
		ID string `json:"id"`
	}
	colour  string
	level   int8
	uuid    [16]byte
	opaque  struct{ N int }
	account string
	item    struct{ N int }
	tree    struct {
		Value int     `json:"value"`
		Kids  []*tree `json:"kids,omitempty"`
	}
	selfEmbedded struct {
		A             int
		*selfEmbedded //nolint:unused // the type embeds a pointer to itself
	}
	tags        map[string]tags
	words       []string
	page[T any] struct {
		Items []T    `json:"items"`
		Next  string `json:"next,omitempty"`
	}
)

func (colour) EnumValues() []colour        { return []colour{"red", "green"} }
func (level) EnumValues() []level          { return []level{1, 2} }
func (uuid) MarshalText() ([]byte, error)  { return []byte("…"), nil }
func (*opaque) UnmarshalJSON([]byte) error { return nil }
func (account) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","x-bank":true}`)
}

func object(properties, required string) string {
	if required != "" {
		required = `"required":[` + required + `],`
	}
	return `{"type":"object","properties":{` + properties + `},` + required + `"additionalProperties":false}`
}

func TestForFields(t *testing.T) {
	tests := map[string]struct {
		got  func() (json.RawMessage, error)
		want string
	}{
		"words": {schema.For[struct {
			A string `json:"a" jsonschema_description:"the <name>, as given" jsonschema:"title=Name,enum=x,enum=y,default=x,example=y,x-mcp-header=Region"`
		}], object(`"a":{"title":"Name","type":"string","description":"the <name>, as given","enum":["x","y"],"default":"x","examples":["y"],"x-mcp-header":"Region"}`, ``)},
		"text": {schema.For[struct {
			A string `json:"a" jsonschema:"minLength=1,maxLength=9,pattern=^a{1\\,3}$,format=email"`
		}], object(`"a":{"type":"string","format":"email","pattern":"^a{1,3}$","minLength":1,"maxLength":9}`, `"a"`)},
		"number": {schema.For[struct {
			A int     `json:"a" jsonschema:"minimum=0,maximum=9,multipleOf=3,enum=3,enum=6"`
			B float64 `json:"b" jsonschema:"exclusiveMinimum=0.5,exclusiveMaximum=1e3,default=0.75"`
			C bool    `json:"c" jsonschema:"default=false"`
		}], object(`"a":{"type":"integer","enum":[3,6],"minimum":0,"maximum":9,"multipleOf":3},"b":{"type":"number","default":0.75,"exclusiveMinimum":0.5,"exclusiveMaximum":1e3},"c":{"type":"boolean","default":false}`, `"a"`)},
		"list": {schema.For[struct {
			A []string `json:"a" jsonschema:"minItems=1,maxItems=3,uniqueItems,enum=x,enum=y,minLength=1,default=x,default=y"`
			B [3]int   `json:"b" jsonschema:"default=[1\\,2\\,3]"`
		}], object(`"a":{"type":"array","default":["x","y"],"minItems":1,"maxItems":3,"uniqueItems":true,"items":{"type":"string","enum":["x","y"],"minLength":1}},"b":{"type":"array","default":[1,2,3],"minItems":3,"maxItems":3,"items":{"type":"integer"}}`, ``)},
		"named list": {schema.For[struct {
			A words `json:"a" jsonschema:"minItems=1,enum=x,enum=y"`
			B words `json:"b"`
		}], object(`"a":{"type":"array","minItems":1,"items":{"type":"string","enum":["x","y"]}},"b":{"type":"array","items":{"type":"string"}}`, `"a","b"`)},
		"optional": {schema.For[struct {
			A string  `json:"a,omitempty"`
			B string  `json:"b,omitzero"`
			C *string `json:"c"`
			D *string `json:"d" jsonschema:"required,nullable"`
			E string
		}], object(`"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":["string","null"]},"E":{"type":"string"}`, `"d","E"`)},
		"durations": {schema.For[struct {
			A time.Duration            `json:"a"`
			B *time.Duration           `json:"b" jsonschema:"how long, in nanoseconds"`
			C []time.Duration          `json:"c" jsonschema:"minimum=1,default=5"`
			D map[string]time.Duration `json:"d"`
		}], object(`"a":{"type":"integer","description":"duration in nanoseconds"},`+
			`"b":{"type":"integer","description":"how long, in nanoseconds"},`+
			`"c":{"type":"array","default":[5],"items":{"type":"integer","description":"duration in nanoseconds","minimum":1}},`+
			`"d":{"type":"object","additionalProperties":{"type":"integer","description":"duration in nanoseconds"}}`, `"a","d"`)},
		"embedded": {schema.For[struct {
			base
			*opaqueBase
			Named base `json:"named"`
		}], object(`"id":{"type":"string"},"o":{"type":"integer"},"named":`+object(`"id":{"type":"string"}`, `"id"`), `"id","o","named"`)},
		"shadowed": {schema.For[struct {
			ID int `json:"id" jsonschema:"minimum=1"`
			base
		}], object(`"id":{"type":"integer","minimum":1}`, `"id"`)},
		"left out": {schema.For[struct {
			_ string `name:"x"`
			a string
			B string `json:"-"`
			C string `json:"c" jsonschema:"-"`
		}], object(``, ``)},
		"encodings": {schema.For[struct {
			Time time.Time       `json:"time"`
			Data []byte          `json:"data"`
			Hash [4]byte         `json:"hash"`
			Raw  json.RawMessage `json:"raw"`
			Any  any             `json:"any"`
			UUID uuid            `json:"uuid"`
			Addr netip.Addr      `json:"addr"`
			JSON opaque          `json:"json"`
			Text int64           `json:"text,string"`
		}], object(`"time":{"type":"string","format":"date-time"},"data":{"type":"string","contentEncoding":"base64"},"hash":{"type":"string","contentEncoding":"base64"},"raw":{},"any":{},"uuid":{"type":"string"},"addr":{"type":"string"},"json":{},"text":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)$"}`,
			`"time","data","hash","raw","any","uuid","addr","json","text"`)},
		"values": {schema.For[struct {
			Number  json.Number               `json:"number" jsonschema:"minimum=1"`
			Numbers map[string][]*json.Number `json:"numbers"`
			Quoted  json.Number               `json:"quoted,string"`
			Big     *big.Int                  `json:"big"`
			Link    url.URL                   `json:"link" jsonschema:"the page"`
			ID      UUID                      `json:"id"`
			Ordinal map[level]int             `json:"ordinal"`
			Names   map[colour]int            `json:"names"`
		}], object(`"number":{"type":"number","minimum":1},"numbers":{"type":"object","additionalProperties":{"type":"array","items":{"type":"number"}}},`+
			`"quoted":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?$"},"big":{"type":"integer"},`+
			`"link":{"type":"string","description":"the page","format":"uri"},"id":{"type":"string","format":"uuid"},`+
			`"ordinal":{"type":"object","additionalProperties":{"type":"integer"},"propertyNames":{"enum":["1","2"]}},`+
			`"names":{"type":"object","additionalProperties":{"type":"integer"},"propertyNames":{"enum":["red","green"]}}`,
			`"number","numbers","quoted","link","id","ordinal","names"`)},
		"relative link": {func() (json.RawMessage, error) { return schema.ForOutput(reflect.TypeFor[[]*url.URL]()) }, `{"type":"array","items":{"type":"string","format":"uri-reference"}}`},
		"ranges": {schema.For[struct {
			A int8
			B uint
			C uint8
			D int32
			E int64
			F float32
		}], object(`"A":{"type":"integer","minimum":-128,"maximum":127},"B":{"type":"integer","minimum":0},"C":{"type":"integer","minimum":0,"maximum":255},"D":{"type":"integer","minimum":-2147483648,"maximum":2147483647},"E":{"type":"integer"},"F":{"type":"number"}`,
			`"A","B","C","D","E","F"`)},
		"maps": {schema.For[struct {
			A map[string]int  `json:"a"`
			B map[int]string  `json:"b"`
			C map[uint]string `json:"c"`
			D map[uuid]bool   `json:"d"`
		}], object(`"a":{"type":"object","additionalProperties":{"type":"integer"}},"b":{"type":"object","patternProperties":{"^-?(0|[1-9][0-9]*)$":{"type":"string"}},"additionalProperties":false},"c":{"type":"object","patternProperties":{"^(0|[1-9][0-9]*)$":{"type":"string"}},"additionalProperties":false},"d":{"type":"object","additionalProperties":{"type":"boolean"}}`,
			`"a","b","c","d"`)},
		"methods": {schema.For[struct {
			A colour   `json:"a"`
			B level    `json:"b"`
			C []colour `json:"c"`
			D account  `json:"d" jsonschema_description:"where to"`
		}], object(`"a":{"type":"string","enum":["red","green"]},"b":{"type":"integer","enum":[1,2]},"c":{"type":"array","items":{"type":"string","enum":["red","green"]}},"d":{"type":"string","x-bank":true,"description":"where to"}`,
			`"a","b","c","d"`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, test.got, test.want) })
	}
}

type (
	extended struct {
		A    int        `json:"a"`
		Kids []extended `json:"kids"`
		item
	}
	custom    string
	numbered  struct{ A int }
	alias     struct{ C chan int }
	described struct {
		A any `json:"a" jsonschema:"required"`
		B int `json:"b" jsonschema:"default=1"`
		C int `json:"-"`
	}
)

func (extended) JSONSchemaExtend(s *jsonschema.Schema) { s.Title = "Extended" }
func (custom) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "custom"}
}
func (numbered) JSONSchema() *jsonschema.Schema         { return &jsonschema.Schema{Ref: "#/$defs/0"} }
func (alias) JSONSchemaAlias() any                      { return item{} }
func (described) GetFieldDocString(field string) string { return "field " + field }
func (described) JSONSchemaProperty(name string) any {
	if name == "a" {
		return item{}
	}
	return nil
}

// A reference in a schema that a type returns is not one to the type, whatever its name.
func TestReferenceOfProvidedSchema(t *testing.T) {
	raw, err := schema.For[numbered]()
	if want := `{"$ref":"#/$defs/0"}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v; want %s", raw, err, want)
	}
}

// The methods that github.com/invopop/jsonschema calls describe types here too.
func TestForLibraryMethods(t *testing.T) {
	itemSchema := object(`"N":{"type":"integer"}`, `"N"`)
	tests := map[string]struct {
		got  func() (json.RawMessage, error)
		want string
	}{
		"JSONSchemaExtend": {schema.For[extended], anchored("extended", `{"title":"Extended",`+object(`"a":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/extended"}},"N":{"type":"integer"}`, `"a","kids","N"`)[1:])},
		"JSONSchema": {schema.For[struct {
			A custom   `json:"a" jsonschema_description:"one"`
			B []custom `json:"b"`
		}], object(`"a":{"type":"string","description":"one","format":"custom"},"b":{"type":"array","items":{"type":"string","format":"custom"}}`, `"a","b"`)},
		"JSONSchemaAlias":   {schema.For[struct{ A *alias }], object(`"A":`+itemSchema, ``)},
		"methods of fields": {schema.For[described], object(`"a":{"type":"object","description":"field A",`+itemSchema[len(`{"type":"object",`):]+`,"b":{"type":"integer","description":"field B","default":1}`, `"a"`)},
		"jsonschema_extras": {schema.For[struct {
			A string `json:"a" jsonschema:"minLength=1" jsonschema_extras:"x-b=1,x-a=true,x-b=2"`
		}], object(`"a":{"type":"string","minLength":1,"x-a":true,"x-b":["1","2"]}`, `"a"`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, test.got, test.want) })
	}
}

type opaqueBase struct {
	O int `json:"o"`
}

func TestForTypes(t *testing.T) {
	itemSchema := object(`"N":{"type":"integer"}`, `"N"`)
	tests := map[string]struct {
		got  func() (json.RawMessage, error)
		want string
	}{
		"string":   {schema.For[string], `{"type":"string"}`},
		"pointer":  {schema.For[**int], `{"type":"integer"}`},
		"any":      {schema.For[any], `{}`},
		"schemer":  {schema.For[account], `{"type":"string","x-bank":true}`},
		"no field": {schema.For[struct{}], object(``, ``)},
		"level":    {schema.For[slog.Level], `{"type":"string"}`},
		"slice":    {schema.For[[]item], `{"type":"array","items":` + itemSchema + `}`},
		"once": {schema.For[struct {
			A item `json:"a" jsonschema_description:"first"`
		}], object(`"a":{"type":"object","description":"first","properties":{"N":{"type":"integer"}},"required":["N"],"additionalProperties":false}`, `"a"`)},
		"twice": {schema.For[struct {
			A item  `json:"a" jsonschema_description:"first"`
			B *item `json:"b" jsonschema:"nullable"`
		}], `{"type":"object","properties":{"a":{"type":"object","description":"first",` + itemSchema[len(`{"type":"object",`):] + `,"b":{"type":["object","null"],` + itemSchema[len(`{"type":"object",`):] + `},"required":["a"],"additionalProperties":false}`},
		"recursive":           {schema.For[tree], anchored("tree", object(`"value":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}`, `"value"`))},
		"recursive use":       {schema.For[[]tree], `{"type":"array","items":{"$ref":"#/$defs/tree"},"$defs":{"tree":` + object(`"value":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}`, `"value"`) + `}}`},
		"recursive map":       {schema.For[tags], `{"type":"object","additionalProperties":{"$ref":"#/$defs/tags"},"$defs":{"tags":{"type":"object","additionalProperties":{"$ref":"#/$defs/tags"}}}}`},
		"recursive embedding": {schema.For[selfEmbedded], object(`"A":{"type":"integer"}`, `"A"`)},
		"generic":             {schema.For[page[item]], object(`"items":{"type":"array","items":`+itemSchema+`},"next":{"type":"string"}`, `"items"`)},
		"recursive inside": {schema.For[struct{ A, B tree }], `{"type":"object","properties":{"A":{"$ref":"#/$defs/tree"},"B":{"$ref":"#/$defs/tree"}},"required":["A","B"],"additionalProperties":false,"$defs":{"tree":` +
			object(`"value":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}`, `"value"`) + `}}`},
		"recursive by another": {schema.For[branch], anchored("branch", object(`"leaf":`+object(`"of":{"$ref":"#/$defs/branch"}`, ``)+`,"other":`+object(`"of":{"$ref":"#/$defs/branch"}`, ``), `"leaf","other"`))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, test.got, test.want) })
	}
}

type (
	branch struct {
		Leaf  leaf `json:"leaf"`
		Other leaf `json:"other"`
	}
	leaf struct {
		Of *branch `json:"of"`
	}
	bulky          struct{}
	double[T any]  struct{ A, B T }
	double5[T any] double[double[double[double[double[T]]]]]
)

func (bulky) JSONSchemaExtend(s *jsonschema.Schema) { s.Description = strings.Repeat("x", 9<<10) }

// anchored returns the schema of a type that contains itself: it is the root, and is in $defs.
func anchored(name, schema string) string {
	return schema[:len(schema)-1] + `,"$defs":{"` + name + `":` + schema + `}}`
}

// A schema that would be large in place has structs that occur twice in $defs.
func TestForLargeTypes(t *testing.T) {
	for name, test := range map[string]struct {
		got  func() (json.RawMessage, error)
		want map[string]string // the references of the properties
	}{
		"bulky": {schema.For[struct {
			A, B bulky
			C, D item
		}], map[string]string{"A": "bulky", "B": "bulky", "C": "item", "D": "item"}},
		"generic": {schema.For[struct {
			A, B page[item]
			X, Y bulky
		}], map[string]string{"A": "pageItem", "B": "pageItem", "X": "bulky", "Y": "bulky"}},
		"one name in two packages": {schema.For[struct {
			A, B image.Point
			C, D Point
			X, Y bulky
		}], map[string]string{"A": "image.Point", "B": "image.Point", "C": "schema_test.Point", "D": "schema_test.Point", "X": "bulky", "Y": "bulky"}},
		"one name in two functions": {localTypes, map[string]string{"A": "schema_test.Point", "B": "schema_test.Point", "C": "schema_test.Point2", "D": "schema_test.Point2", "X": "bulky", "Y": "bulky"}},
		"doubling":                  {schema.For[double[double5[double5[double5[double5[item]]]]]], map[string]string{"A": "double5Double5Double5Double5Item", "B": "double5Double5Double5Double5Item"}},
	} {
		raw, err := test.got()
		if err != nil || len(raw) > 64<<10 {
			t.Errorf("%s: %d bytes, %v", name, len(raw), err)
			continue
		}
		if _, err := schema.Compile(raw, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var parsed struct {
			Properties map[string]struct {
				Ref string `json:"$ref"`
			}
			Defs map[string]json.RawMessage `json:"$defs"`
		}
		if err := json.Unmarshal(raw, &parsed); err != nil {
			t.Fatal(err)
		}
		for property, want := range test.want {
			if got := parsed.Properties[property].Ref; got != "#/$defs/"+want || parsed.Defs[want] == nil {
				t.Errorf("%s: %s refers to %q, want %s", name, property, got, want)
			}
		}
	}
}

// Point is also the name of other types.
type Point struct{ Own int }

func localTypes() (json.RawMessage, error) {
	type outer = Point
	type Point struct{ Local string }
	return schema.For[struct {
		X, Y bulky
		A, B outer
		C, D Point
	}]()
}

func check(t *testing.T, reflect func() (json.RawMessage, error), want string) {
	t.Helper()
	got, err := reflect()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := schema.Compile(got, nil); err != nil {
		t.Errorf("it does not compile: %v", err)
	}
	again, _ := reflect()
	if string(again) != string(got) {
		t.Errorf("not deterministic: %s", again)
	}
}

type panics struct{}

func (panics) JSONSchema() json.RawMessage { panic("oops") }

type endless *endless

// A UUID has the methods of the types of common packages.
type UUID [16]byte

func (u UUID) MarshalText() ([]byte, error)  { return nil, nil }
func (u *UUID) UnmarshalText(_ []byte) error { return nil }

type notObject struct{}

func (notObject) JSONSchema() json.RawMessage { return json.RawMessage(`[]`) }

type order struct {
	Lines []struct {
		Done map[string]func() `json:"done"`
	}
}

func TestForErrors(t *testing.T) {
	tests := map[string]struct {
		reflect func() (json.RawMessage, error)
		want    string
	}{
		"func":           {schema.For[order], "schema: order.Lines[].Done[]: the type func() has no JSON form"},
		"chan":           {schema.For[chan int], "schema: chan: the type chan int has no JSON form"},
		"complex":        {schema.For[struct{ C complex64 }], "schema: struct.C: the type complex64 has no JSON form"},
		"endless":        {schema.For[struct{ P endless }], "schema: struct.P: the type schema_test.endless has no JSON form"},
		"endless result": {func() (json.RawMessage, error) { return schema.ForOutput(reflect.TypeFor[endless]()) }, "schema: endless: the type schema_test.endless has no JSON form"},
		"key":            {schema.For[map[float64]int], "schema: map: keys of a JSON object are strings, integers or types with text methods, not float64"},
		"not for": {schema.For[struct {
			A string `jsonschema:"minimum=1"`
		}], `schema: struct.A: the jsonschema tag: minimum is not for a value of type "string"`},
		"no number": {schema.For[struct {
			A int `jsonschema:"minimum=x"`
		}], `schema: struct.A: the jsonschema tag: minimum must be a number, not "x"`},
		"no count": {schema.For[struct {
			A string `jsonschema:"minLength=-1"`
		}], `schema: struct.A: the jsonschema tag: minLength must be a whole number, not "-1"`},
		"default": {schema.For[struct {
			A int `jsonschema:"default=x"`
		}], `schema: struct.A: the jsonschema tag: default must be JSON of type integer, not "x"`},
		"string": {schema.For[struct {
			A bool `json:",string"`
		}], `schema: struct.A: the json option string is for numbers, not for bool`},
		"embedded": {schema.For[struct{ colour }], `schema: struct.colour: an embedded schema_test.colour needs a JSON name: only structs and maps can be flattened`},
		// The JSON library would refuse each value.
		"tag of an unexported field": {func() (json.RawMessage, error) {
			return schema.ForType(reflect.SliceOf(reflect.StructOf([]reflect.StructField{
				{Name: "A", Type: reflect.TypeFor[int]()},
				{Name: "b", PkgPath: "x", Type: reflect.TypeFor[int](), Tag: `json:"B"`}, // go vet refuses this in a declared type
			})))
		}, `schema: slice[]: unexported Go struct field b cannot have non-ignored ` + "`json:\"B\"` tag"},
		"two of one name": {schema.For[struct {
			A int
			B int `json:"A"`
		}], `schema: struct: Go struct fields A and B conflict over JSON object name "A"`},
		"no exported field": {schema.For[struct{ M sync.Mutex }], `schema: struct.M: Go struct has no exported fields`},
		"panic":             {schema.For[panics], "schema: schema_test.panics: reflecting panicked: oops"},
		"schemer":           {schema.For[notObject], "schema: notObject: JSONSchema of schema_test.notObject must return a JSON object: invalid JSON at byte 0: expected an object, found '['"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.reflect()
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if _, ok := err.(*schema.TypeError); !ok {
				t.Errorf("got a %T", err)
			}
		})
	}
}

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

// A schema of ForOutput accepts every encoded value.
func TestForOutput(t *testing.T) {
	written := func() (json.RawMessage, error) { return schema.ForOutput(reflect.TypeFor[stop]()) }
	check(t, written, anchored("stop", object(`"name":{"type":"string"},"note":{"type":["string","null"]},"short":{"type":"string"},`+
		`"level":{"type":["integer","null"],"enum":[1,null]},"next":{"anyOf":[{"$ref":"#/$defs/stop"},{"type":"null"}]},`+
		`"item":{"type":["object","null"],"description":"once","properties":{"N":{"type":"integer"}},"required":["N"],"additionalProperties":false},`+
		`"count":{"type":["string","null"],"pattern":"^-?(0|[1-9][0-9]*)$"},"must":{"type":["boolean","null"]},"any":{},`+
		`"list":{"type":["array","null"],"items":{"type":"integer"}},"Tag":{},"o":{"type":"integer"}`, `"name","must","Tag"`)))
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
		if err := validator.Validate(t.Context(), encoded); err != nil {
			t.Errorf("%s does not fit: %v", encoded, err)
		}
	}
	// Decoding does not support interfaces with methods.
	if _, err := schema.For[stop](); err == nil || err.Error() != "schema: stop.Tag: nothing can be read into fmt.Stringer, an interface with methods" {
		t.Errorf("the error is %v", err)
	}
}

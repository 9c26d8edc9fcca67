package interop

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	googleschema "github.com/google/jsonschema-go/jsonschema"

	"github.com/dovetail-go/dovetail/schema"
)

// These are structs like those in the documentation, examples and tests of go-sdk and jsonschema-go.
type (
	player struct {
		Name   string `json:"name" jsonschema:"name of the player"`
		Scores []int  `json:"scores" jsonschema:"points in each of the player's games"`
	}
	sky   string
	share float64
	day   struct {
		Text string  `json:"forecast" jsonschema:"description of the weather"`
		Sky  sky     `json:"type" jsonschema:"type of weather"`
		Rain share   `json:"rain" jsonschema:"probability of rain, between 0 and 1"`
		High float64 `json:"high" jsonschema:"highest temperature"`
	}
	weather struct {
		City   string    `json:"city" jsonschema:"city of the forecast (nyc, sf, or boston)"`
		Days   []day     `json:"days" jsonschema:"the forecast, by day"`
		AsOf   time.Time `json:"asOf" jsonschema:"time of the forecast"`
		Source string    `json:"source,omitempty" jsonschema:"required"`
	}
	base struct {
		B int8 `jsonschema:"minimum"`
	}
	mixed struct {
		F      int   `json:"f" jsonschema:"f = a+b, or less"`
		P      *bool `jsonschema:"true, if known"`
		PT     *time.Time
		Skip   string `json:"-"`
		NoSkip string `json:",omitempty"`
		Pair   [2]uint16
		Counts map[string]uint32
		A      base
		base2
		hidden float64
	}
	base2 struct {
		G []float64 `json:"g" jsonschema:"uniqueness, x-ray and enum"`
	}
)

// These are the types of the tests of jsonschema-go's For, except those that only its options describe;
// big.Int, which is a number in JSON and a string there; and a struct with a json tag at an unexported
// field, which this module refuses.
type (
	described struct {
		B int `jsonschema:"bdesc"`
	}
	members struct {
		F      int `json:"f" jsonschema:"fdesc"`
		G      []float64
		P      *bool `jsonschema:"pdesc"`
		PT     *time.Time
		Skip   string `json:"-"`
		NoSkip string `json:",omitempty"`
		hidden float64
	}
	nested struct {
		A described
		described
	}
	coordinates struct{ G, B, I float64 }
	inTheMiddle struct {
		C int
		coordinates
		M int
	}
	shadowing struct {
		I  int
		PP **int
		coordinates
		B bool
	}
	containers struct {
		A int `json:"A"`
		B map[string]int
		C []described
		D [3]described
		E *bool
	}
	texts struct {
		S string   `jsonschema:"str"`
		A []string `jsonschema:"arr"`
	}
	hiddenCycle    struct{ b *hiddenCycle }
	hiddenMapCycle struct{ c map[string]*hiddenMapCycle }
)

// A type with the tags of jsonschema-go, which go-sdk uses, has the same schema here, except for what
// withoutDifferences removes. An instance that its schema there accepts is decoded here.
func TestTagsOfGoSDK(t *testing.T) {
	compareSchemas[player](t, `{"name":"Ada","scores":[1,2]}`)
	compareSchemas[day](t, `{"forecast":"mixed","type":"cloudy","rain":0.5,"high":20}`)
	compareSchemas[weather](t, `{"city":"nyc","days":[{"forecast":"mixed","type":"cloudy","rain":0.5,"high":20}],"asOf":"2026-01-31T09:30:00Z","source":"x"}`)
	compareSchemas[mixed](t,
		`{"f":1,"P":true,"PT":"2026-01-31T09:30:00Z","NoSkip":"x","Pair":[1,2],"Counts":{"x":7},"A":{"B":1},"g":[0.5]}`,
		`{"f":1,"P":null,"PT":null,"Pair":[1,2],"Counts":{},"A":{"B":-128},"g":[]}`)

	compareSchemas[string](t, `"x"`)
	compareSchemas[bool](t, `true`)
	compareSchemas[float64](t, `0.5`)
	compareSchemas[int](t, `-1`)
	compareSchemas[int8](t, `-128`)
	compareSchemas[int16](t, `32767`)
	compareSchemas[int32](t, `-2147483648`)
	compareSchemas[int64](t, `9007199254740993`)
	compareSchemas[uint](t, `0`)
	compareSchemas[uint8](t, `255`)
	compareSchemas[uint16](t, `65535`)
	compareSchemas[uint32](t, `4294967295`)
	compareSchemas[uint64](t, `1`)
	compareSchemas[uintptr](t, `1`)
	compareSchemas[time.Time](t, `"2026-01-31T09:30:00Z"`)
	compareSchemas[slog.Level](t, `"WARN+1"`)
	compareSchemas[big.Rat](t, `"1/3"`)
	compareSchemas[big.Float](t, `"1.5"`)
	compareSchemas[[]int64](t, `[1,2]`)
	compareSchemas[[2]int64](t, `[1,2]`)
	compareSchemas[map[string]int](t, `{"x":1}`)
	compareSchemas[map[string]int8](t, `{"x":1}`)
	compareSchemas[map[string]any](t, `{"x":{"y":null}}`)
	compareSchemas[described](t, `{"B":1}`)
	compareSchemas[members](t, `{"f":1,"G":[0.5],"P":null,"PT":null}`)
	compareSchemas[nested](t, `{"A":{"B":1},"B":2}`)
	compareSchemas[inTheMiddle](t, `{"C":1,"G":1,"B":2,"I":3,"M":4}`)
	compareSchemas[shadowing](t, `{"I":1,"PP":null,"G":0.5,"B":true}`)
	compareSchemas[containers](t, `{"A":1,"B":{"x":2},"C":[{"B":3}],"D":[{"B":1},{"B":2},{"B":3}],"E":null}`)
	compareSchemas[texts](t, `{"S":"x","A":["y"]}`)
	compareSchemas[hiddenCycle](t, `{}`)
	compareSchemas[hiddenMapCycle](t, `{}`)
}

// withoutDifferences returns a schema without its references and without the intended differences of
// the two modules.
func withoutDifferences(s, root map[string]any) map[string]any {
	if ref, ok := s["$ref"].(string); ok {
		target := root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")]
		described := maps.Clone(target.(map[string]any))
		maps.Copy(described, s)
		s = described
	}
	s = maps.Clone(s)
	for _, key := range []string{"$ref", "$defs", "format"} { // jsonschema-go has no formats
		delete(s, key)
	}
	// In jsonschema-go, slices and pointers may be null.
	if types, ok := s["type"].([]any); ok && len(types) == 2 && types[0] == "null" {
		s["type"] = types[1]
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if part, ok := s[key].(map[string]any); ok {
			s[key] = withoutDifferences(part, root)
		}
		if s[key] == true { // the same as {}
			s[key] = map[string]any{}
		}
	}
	properties, _ := s["properties"].(map[string]any)
	if len(properties) == 0 {
		delete(s, "properties")
		return s
	}
	required := map[any]bool{}
	if names, ok := s["required"].([]any); ok {
		for _, name := range names {
			required[name] = true
		}
	}
	parts := map[string]any{}
	for name, part := range properties {
		part := part.(map[string]any)
		// In this module, a pointer is optional.
		if types, ok := part["type"].([]any); ok && types[1] != "array" {
			delete(required, name)
		}
		part = withoutDifferences(part, root)
		// In this module, the tag "required" is a keyword and not a description.
		if part["description"] == "required" {
			delete(part, "description")
			required[name] = true
		}
		parts[name] = part
	}
	s["properties"], s["required"] = parts, required
	return s
}

func compareSchemas[T any](t *testing.T, instances ...string) {
	t.Helper()
	of := reflect.TypeFor[T]()
	theirSchema, err := googleschema.For[T](nil)
	if err != nil {
		t.Fatal(err)
	}
	theirText, err := json.Marshal(theirSchema)
	if err != nil {
		t.Fatal(err)
	}
	ownText, err := schema.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	var theirs, own map[string]any
	if err := json.Unmarshal(theirText, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(ownText, &own); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withoutDifferences(theirs, theirs), withoutDifferences(own, own)); diff != "" {
		t.Errorf("%v: -theirs +own:\n%s", of, diff)
	}
	resolved, err := theirSchema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, instance := range instances {
		var value any
		if err := json.Unmarshal([]byte(instance), &value); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(value); err != nil {
			t.Errorf("%v: they refuse %s: %v", of, instance, err)
		}
		if _, err := schema.Decode[T](t.Context(), json.RawMessage(instance)); err != nil {
			t.Errorf("%v: %s is refused: %v", of, instance, err)
		}
	}
}

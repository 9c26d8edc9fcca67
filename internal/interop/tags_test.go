package interop

import (
	"encoding/json"
	"reflect"
	"slices"
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

// A struct with the tags of jsonschema-go, which go-sdk uses, has the same members, types and descriptions
// here. An instance that its schema there accepts is decoded here.
func TestTagsOfGoSDK(t *testing.T) {
	compareSchemas[player](t, `{"name":"Ada","scores":[1,2]}`)
	compareSchemas[day](t, `{"forecast":"mixed","type":"cloudy","rain":0.5,"high":20}`)
	compareSchemas[weather](t, `{"city":"nyc","days":[{"forecast":"mixed","type":"cloudy","rain":0.5,"high":20}],"asOf":"2026-01-31T09:30:00Z","source":"x"}`)
	compareSchemas[mixed](t,
		`{"f":1,"P":true,"PT":"2026-01-31T09:30:00Z","NoSkip":"x","Pair":[1,2],"Counts":{"x":7},"A":{"B":1},"g":[0.5]}`,
		`{"f":1,"P":null,"PT":null,"Pair":[1,2],"Counts":{},"A":{"B":-128},"g":[]}`)
}

// A described has the parts of a schema that are compared.
type described struct {
	Properties           map[string]property
	Required             []string
	AdditionalProperties any
}

type property struct {
	Type        any
	Description string
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
	var theirs, own described
	if err := json.Unmarshal(theirText, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(ownText, &own); err != nil {
		t.Fatal(err)
	}
	// In jsonschema-go, slices and pointers may be null.
	for name, p := range theirs.Properties {
		if types, ok := p.Type.([]any); ok && len(types) == 2 && types[0] == "null" {
			p.Type = types[1]
			theirs.Properties[name] = p
		}
	}
	// In this module, a pointer is optional.
	theirs.Required = slices.DeleteFunc(theirs.Required, func(name string) bool {
		field, _ := of.FieldByName(name)
		return field.Type != nil && field.Type.Kind() == reflect.Pointer
	})
	// In this module, the tag "required" is a keyword and not a description.
	for name, p := range theirs.Properties {
		if p.Description == "required" {
			theirs.Required = append(theirs.Required, name)
			p.Description = ""
			theirs.Properties[name] = p
		}
	}
	if diff := cmp.Diff(theirs, own); diff != "" {
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

package schema_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/schema"
)

// The structs with tags of github.com/google/jsonschema-go have the same required members, types and
// descriptions as in that module, except that a pointer is optional.
func TestDescriptionTags(t *testing.T) {
	type share float64
	type day struct {
		High  float64 `json:"high" jsonschema:"highest temperature"`
		Rain  share   `json:"rain" jsonschema:"probability of rain, between 0 and 1"`
		State string  `json:"state,omitempty" jsonschema:"state of the sky (sunny, cloudy, or rainy)"`
	}
	tests := map[string]struct {
		reflect func() (json.RawMessage, error)
		want    string
	}{
		"one word": {schema.For[struct {
			N int `jsonschema:"amount"`
		}], object(`"N":{"type":"integer","description":"amount"}`, `"N"`)},
		"a keyword": {schema.For[struct {
			N int `jsonschema:"minimum"`
		}], object(`"N":{"type":"integer","description":"minimum"}`, `"N"`)},
		"in words": {schema.For[struct {
			N int `jsonschema:"the name is required"`
		}], object(`"N":{"type":"integer","description":"the name is required"}`, `"N"`)},
		"a flag": {schema.For[struct {
			N *int `jsonschema:"required"`
		}], object(`"N":{"type":"integer"}`, `"N"`)},
		"flags": {schema.For[struct {
			N *[]int `jsonschema:"required,uniqueItems,nullable"`
		}], object(`"N":{"type":["array","null"],"uniqueItems":true,"items":{"type":"integer"}}`, `"N"`)},
		"a flag in a sentence": {schema.For[struct {
			N *int `jsonschema:"required, if known"`
		}], object(`"N":{"type":"integer","description":"required, if known"}`, "")},
		"an equation": {schema.For[struct {
			N int `jsonschema:"the sum, a+b=c"`
		}], object(`"N":{"type":"integer","description":"the sum, a+b=c"}`, `"N"`)},
		"an equation after spaces": {schema.For[struct {
			N int `jsonschema:"size of a page, default=20, minimum=1"`
		}], object(`"N":{"type":"integer","description":"size of a page, default=20, minimum=1"}`, `"N"`)},
		// The reflection library has these keywords.
		"words of the library": {schema.For[struct {
			N int `jsonschema:"one of,type=string,oneof_required=x,anyof_required=x,oneof_type=a;b,anchor=c"`
		}], object(`"N":{"type":"integer","description":"one of,type=string,oneof_required=x,anyof_required=x,oneof_type=a;b,anchor=c"}`, `"N"`)},
		"description": {schema.For[struct {
			N int `description:"a=b, the sum"`
		}], object(`"N":{"type":"integer","description":"a=b, the sum"}`, `"N"`)},
		"with keywords": {schema.For[struct {
			N int `jsonschema:"minimum=1" description:"pages, at most"`
		}], object(`"N":{"type":"integer","description":"pages, at most","minimum":1}`, `"N"`)},
		"of three, the 1st": {schema.For[struct {
			N int `jsonschema:"one" jsonschema_description:"two" description:"three"`
		}], object(`"N":{"type":"integer","description":"one"}`, `"N"`)},
		"of two, the 1st": {schema.For[struct {
			N int `jsonschema:"minimum=1" jsonschema_description:"two" description:"three"`
		}], object(`"N":{"type":"integer","description":"two","minimum":1}`, `"N"`)},
		"a keyword first": {schema.For[struct {
			N int `jsonschema:"description=one" jsonschema_description:"two"`
		}], object(`"N":{"type":"integer","description":"one"}`, `"N"`)},
		"a weather report": {schema.For[struct {
			Days []day     `json:"days" jsonschema:"the daily forecast"`
			AsOf time.Time `json:"asOf" jsonschema:"the time of the forecast"`
			Best *day      `json:"best" jsonschema:"the best day"`
			None string    `json:"-"`
			city string
		}], object(`"days":{"type":"array","description":"the daily forecast","items":{"type":"object",`+daySchema+`},`+
			`"asOf":{"type":"string","description":"the time of the forecast","format":"date-time"},"best":{"type":"object","description":"the best day",`+daySchema, `"days","asOf"`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, test.reflect, test.want) })
	}
}

// daySchema is the rest of the schema of a day.
var daySchema = object(`"high":{"type":"number","description":"highest temperature"},"rain":{"type":"number","description":"probability of rain, between 0 and 1"},`+
	`"state":{"type":"string","description":"state of the sky (sunny, cloudy, or rainy)"}`, `"high","rain"`)[len(`{"type":"object",`):]

const keywords = "the keywords are title, description, enum, default, example, format, pattern, minLength, maxLength, minimum, maximum, " +
	"exclusiveMinimum, exclusiveMaximum, multipleOf, minItems, maxItems, uniqueItems, minProperties, maxProperties, required, nullable, x-…; "

func TestTagErrors(t *testing.T) {
	const (
		first = keywords + "a description that begins with a word and = is written in the tag description"
		later = keywords + `a comma inside a value is written \\,`
		mixed = "the jsonschema tag is a description that contains the keyword %; write the description in another tag, as in description:\"…\" jsonschema:"
	)
	for tag, want := range map[string]string{
		"minimun=1":                      `the jsonschema tag has no keyword "minimun"; ` + first,
		"a=b, the sum":                   `the jsonschema tag has no keyword "a"; ` + first,
		"=1":                             `the jsonschema tag has no keyword ""; ` + first,
		"x-=1":                           `the jsonschema tag has no keyword "x-"; ` + first,
		"required=true":                  `the jsonschema tag has no keyword "required"; ` + first,
		"description=loaves, at most 12": `the jsonschema tag has no keyword " at most 12"; ` + later,
		"minimum=1, maximum=2":           `the jsonschema tag has no keyword " maximum"; ` + later,
		"required,minimun=1":             `the jsonschema tag has no keyword "minimun"; ` + later,
		"required,minimum":               `the jsonschema tag must give minimum a value`,
		"minimum,maximum=1":              `the jsonschema tag must give minimum a value`,
		"x-unit,minimum=1":               `the jsonschema tag must give x-unit a value`,
		"the loaves,minimum=1":           strings.Replace(mixed, "%", `"minimum"`, 1) + `"minimum=1"`,
		"the loaves, of course,required": strings.Replace(mixed, "%", `"required"`, 1) + `"required"`,
	} {
		of := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: reflect.StructTag(`jsonschema:"` + tag + `"`)}})
		_, err := schema.ForType(of)
		if err == nil || err.Error() != "schema: struct.A: "+want {
			t.Errorf("%s:\ngot  %v\nwant %s", tag, err, want)
		}
		if _, ok := err.(*schema.TypeError); !ok {
			t.Errorf("%s: got a %T", tag, err)
		}
	}
}

// A tag gives a valid schema, with the tag itself as the description if that is not a list of keywords,
// or a *TypeError.
func FuzzTag(f *testing.F) {
	for _, seed := range []string{"the name, if known", "required", "required,minimum=1", "minimum=1,maximum=2", "enum=1,enum=2", "a=b, the sum", `title=a\,b`, "x,type=string", "-", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		quoted, err := json.Marshal(tag)
		if err != nil || !json.Valid(quoted) {
			t.Skip()
		}
		field := reflect.StructField{Name: "A", Type: reflect.TypeFor[*[]int](), Tag: reflect.StructTag("jsonschema:" + string(quoted))}
		if _, ok := field.Tag.Lookup("jsonschema"); !ok {
			t.Skip("Go has another syntax of strings")
		}
		raw, err := schema.ForType(reflect.StructOf([]reflect.StructField{field}))
		if err != nil {
			if _, ok := err.(*schema.TypeError); !ok {
				t.Fatalf("%q: got a %T", tag, err)
			}
			return
		}
		var got struct {
			Properties map[string]struct{ Description string }
			OneOf      any
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%q: %v", tag, err)
		}
		if !strings.ContainsAny(tag, "=,") && tag != "required" && tag != "nullable" && tag != "uniqueItems" && tag != "-" {
			if got.Properties["A"].Description != field.Tag.Get("jsonschema") || got.OneOf != nil {
				t.Errorf("%q: %s", tag, raw)
			}
		}
	})
}

// With RequiredByTag, a field is required only if a tag says so, at any depth.
func TestRequiredByTag(t *testing.T) {
	type nested struct {
		A string `json:"a" validate:"required,uuid"`
		B string `json:"b"`
	}
	type root struct {
		Keyword string   `json:"keyword" jsonschema:"required,minLength=1"`
		Binding *int     `json:"binding,omitempty" binding:"required"`
		Items   []string `json:"items" validate:"omitempty,dive,required"`
		Default string   `json:"default" validate:"required" jsonschema:"default=x"`
		Plain   string   `json:"plain"`
		Nested  nested   `json:"nested"`
	}
	d, err := schema.NewDecoder[root](&schema.DecoderOptions{RequiredByTag: true})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Required   []string
		Properties struct{ Nested struct{ Required []string } }
	}
	if err := json.Unmarshal(d.Schema(), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Required, []string{"keyword", "binding"}) || !slices.Equal(got.Properties.Nested.Required, []string{"a"}) {
		t.Errorf("required are %q, and %q in the nested struct", got.Required, got.Properties.Nested.Required)
	}
}

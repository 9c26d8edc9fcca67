package schema_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dovetail-go/dovetail/schema"
)

type search struct {
	Query string `json:"query" jsonschema:"minLength=1"`
	Limit int    `json:"limit" jsonschema:"default=10,minimum=1,maximum=100"`
}

type deep struct {
	ID     int64             `json:"id"`
	Big    uint64            `json:"big,omitempty"`
	Sub    *search           `json:"sub,omitzero"`
	Subs   []search          `json:"subs,omitempty"`
	ByName map[string]search `json:"byName,omitempty"`
	ByID   map[int]search    `json:"byID,omitempty"`
	Level  string            `json:"level" jsonschema:"enum=low,enum=high,default=low"`
	Tags   []string          `json:"tags" jsonschema:"default=a,default=b"`
	At     *time.Time        `json:"at,omitzero"`
}

func TestDecode(t *testing.T) {
	tests := map[string]struct {
		raw  string
		want deep
	}{
		"defaults":     {`{"id":1}`, deep{ID: 1, Level: "low", Tags: []string{"a", "b"}}},
		"no defaults":  {`{"id":1,"level":"high","tags":[]}`, deep{ID: 1, Level: "high", Tags: []string{}}},
		"inside":       {`{"id":1,"level":"high","tags":[],"sub":{"query":"x"},"subs":[{"query":"y"},{"query":"z","limit":3}],"byName":{"n":{"query":"w"}}}`, deep{ID: 1, Level: "high", Tags: []string{}, Sub: &search{"x", 10}, Subs: []search{{"y", 10}, {"z", 3}}, ByName: map[string]search{"n": {"w", 10}}}},
		"digits":       {`{"id":9007199254740993,"big":18446744073709551615}`, deep{ID: 9007199254740993, Big: 18446744073709551615, Level: "low", Tags: []string{"a", "b"}}},
		"as a float":   {`{"id":1.0,"big":18446744073709.551615e6}`, deep{ID: 1, Big: 18446744073709551615, Level: "low", Tags: []string{"a", "b"}}},
		"exponent":     {`{"id":-12e2,"tags":[],"level":"low"}`, deep{ID: -1200, Level: "low", Tags: []string{}}},
		"escaped keys": {`{"\u0069d":1,"\u006cevel":"high","tags":[]}`, deep{ID: 1, Level: "high", Tags: []string{}}},
	}
	d, err := schema.NewDecoder[deep](nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := d.Decode(t.Context(), json.RawMessage(test.raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Defaults are added for schemas of the general validator too.
func TestDecodeGeneral(t *testing.T) {
	type arguments struct {
		N int `json:"n" jsonschema:"default=5"`
		A schemaOfItsOwn
	}
	got, err := schema.Decode[arguments](t.Context(), json.RawMessage(`{"A":"x"}`))
	if diff := cmp.Diff(arguments{5, "x"}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := schema.Decode[arguments](t.Context(), json.RawMessage(`{"n":1.0,"A":"y"}`)); err == nil || err.Error() != `at "/A": expected one of these: "x"; or null, got the string "y"` {
		t.Error(err)
	}
}

type schemaOfItsOwn string

func (schemaOfItsOwn) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"anyOf":[{"const":"x"},{"type":"null"}]}`)
}

func TestDecodeAbsent(t *testing.T) {
	type arguments struct {
		N int `json:"n" jsonschema:"default=5"`
	}
	for _, raw := range []string{``, ` `, `null`, ` null `, `{}`, ` { } `} {
		got, err := schema.Decode[arguments](t.Context(), json.RawMessage(raw))
		if err != nil || got.N != 5 {
			t.Errorf("%q: %v, %v", raw, got, err)
		}
	}
	if _, err := schema.Decode[[]int](t.Context(), json.RawMessage(`null`)); err == nil {
		t.Error("null is no array")
	}
	if got, err := schema.Decode[any](t.Context(), json.RawMessage(`null`)); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := schema.Decode[*search](t.Context(), json.RawMessage(`{"query":"x"}`)); err != nil || got.Limit != 10 {
		t.Errorf("%v, %v", got, err)
	}
}

// null for a member that is not required is read as if the member were absent.
func TestDecodeNull(t *testing.T) {
	d, err := schema.NewDecoder[deep](nil)
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]deep{
		`{"id":1,"sub":null}`: {ID: 1},
		`{"sub":null,"id":1}`: {ID: 1},
		` { "sub" : null , "at" : null , "id" : 1 , "big" : null } `:     {ID: 1},
		`{"id":1,"level":null,"tags":null,"byID":null,"byName":null}`:    {ID: 1},
		`{"\u0073ub":null,"id":1.0,"subs":[{"limit":null,"query":"x"}]}`: {ID: 1, Subs: []search{{"x", 10}}},
	} {
		want.Level, want.Tags = "low", []string{"a", "b"}
		got, err := d.Decode(t.Context(), json.RawMessage(raw))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", raw, err, diff)
		}
	}
	for raw, want := range map[string]string{
		`{"id":null}`:                                  `at "/id": expected an integer, got null`,
		`{"id":1,"none":null}`:                         `at "/none": unknown member; accepted: id, big, sub, subs, byName, byID, level, tags, at`,
		`{"id":1,"sub":{"query":null}}`:                `at "/sub/query": expected a string, got null`,
		`{"id":1,"subs":[null]}`:                       `at "/subs/0": expected an object, got null`,
		`{"id":1,"byName":{"x":null}}`:                 `at "/byName/x": expected an object, got null`,
		`{"id":1,"big":null,"sub":null,"level":"odd"}`: `at "/level": expected one of "low", "high", got "odd"`,
	} {
		if _, err := d.Decode(t.Context(), json.RawMessage(raw)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", raw, err, want)
		}
	}
	for _, raw := range []string{
		`{"id":1,"sub":null,"sub":null}`, `{"id":1,"sub":null,"sub":{"query":"x"}}`, `{"id":1,"sub":{"query":"x"},"sub":null}`, `{"id":1,"sub":null,"\u0073ub":{"query":"x"}}`,
	} {
		if _, err := d.Decode(t.Context(), json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), "given twice") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	// The schema says what it said.
	validator, err := schema.Compile(d.Schema(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validator.Validate(t.Context(), []byte(`{"id":1,"sub":null}`)); err == nil || err.Error() != `at "/sub": expected an object, got null` {
		t.Error(err)
	}
}

// null is kept where the schema accepts it, and refused where a schema beside a reference requires the
// member.
func TestDecodeNullBySchema(t *testing.T) {
	type arguments struct {
		A any  `json:"a,omitzero"`
		B *int `json:"b,omitzero" jsonschema:"nullable,default=3"`
		C *int `json:"c,omitzero"`
	}
	for raw, want := range map[string]arguments{
		`{}`:                             {B: new(3)},
		`{"a":null,"b":null,"c":null}`:   {},
		`{"a":[null],"b":null,"c":null}`: {A: []any{nil}},
		`{"c":7}`:                        {B: new(3), C: new(7)},
	} {
		if got, err := schema.Decode[arguments](t.Context(), json.RawMessage(raw)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	for text, refused := range map[string]bool{
		`{"$ref":"#/$defs/x","required":["c"],"$defs":{"x":{"properties":{"c":{"type":"integer"}}}}}`: true,
		`{"$ref":"#/$defs/x","required":["b"],"$defs":{"x":{"properties":{"c":{"type":"integer"}}}}}`: false,
		`{"properties":{"b":true,"c":{"enum":[1,2]}}}`:                                                false,
		`{"properties":{"b":true,"c":{"const":1}},"not":{"required":["a"]}}`:                          false,
		`{"properties":{"b":true,"c":{"enum":[1,2]}},"not":{"required":["b"]}}`:                       true,
		`{"properties":{"b":true,"c":false}}`:                                                         true,
	} {
		d, err := schema.NewDecoder[arguments](&schema.DecoderOptions{Schema: json.RawMessage(text)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(t.Context(), json.RawMessage(`{"b":1,"c":null}`)); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for raw, want := range map[string]string{
		`{"id":1,"ID":2}`:                        `at "/ID": unknown member; accepted: id, big, sub, subs, byName, byID, level, tags, at`,
		`{"id":9223372036854775808}`:             `at "/id": expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808`,
		`{"id":1,"at":"yesterday"}`:              `at "/at": expected a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z, got "yesterday"`,
		`{"id":1,"sub":{"limit":0},"level":"x"}`: "at \"/sub\": missing \"query\" (accepted: query, limit)\nat \"/sub/limit\": expected at least 1, got 0\nat \"/level\": expected one of \"low\", \"high\", got \"x\"",
	} {
		got, err := schema.Decode[deep](t.Context(), json.RawMessage(raw))
		if _, ok := errors.AsType[*schema.ValidationError](err); !ok {
			t.Errorf("%s: got a %T", raw, err)
			continue
		}
		if diff := cmp.Diff(sortedLines(want), sortedLines(err.Error())); diff != "" {
			t.Errorf("%s: -want +got:\n%s", raw, diff)
		}
		if diff := cmp.Diff(deep{}, got); diff != "" {
			t.Errorf("%s: a value beside an error:\n%s", raw, diff)
		}
	}
}

// sortedLines returns the lines of a message in an order that does not depend on the validator.
func sortedLines(text string) []string {
	return slices.Sorted(strings.SplitSeq(text, "\n"))
}

func TestDecoderErrors(t *testing.T) {
	type misfit struct {
		N int `json:"n" jsonschema:"default=500,maximum=100"`
	}
	_, err := schema.NewDecoder[misfit](nil)
	if err == nil || err.Error() != `schema: invalid schema at "/properties/n/default": default: expected at most 100, got 500` {
		t.Error(err)
	}
	if _, err := schema.NewDecoder[func()](nil); err == nil {
		t.Error("a func has a decoder")
	}
	if _, err := schema.Decode[func()](t.Context(), nil); err == nil {
		t.Error("a func is decoded")
	}
}

func TestDecoderOptions(t *testing.T) {
	d, err := schema.NewDecoder[search](&schema.DecoderOptions{
		Schema:    json.RawMessage(`{"type":"object","properties":{"query":{"$ref":"https://example.com/q"}}}`),
		Resources: map[string]json.RawMessage{"https://example.com/q": json.RawMessage(`{"maxLength":2}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(t.Context(), json.RawMessage(`{"query":"abc"}`)); err == nil {
		t.Error("too long a query is decoded")
	}
	if got, err := d.Decode(t.Context(), json.RawMessage(`{"query":"ab"}`)); err != nil || got.Query != "ab" {
		t.Errorf("%v, %v", got, err)
	}
}

// Decoding neither panics nor returns a value with an error. A decoded value can be encoded and
// decoded again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"id":1}`, `{"id":1.0,"sub":{"query":"x","limit":1e1}}`, `{"id":1,"id":2}`, `null`, `{"id":1,"byID":{"-1":{"query":"q"}}}`, `{"id":1,"at":"2026-01-01T00:00:00Z"}`, `{"sub":null,"id":1,"level":null,"sub":{}}`, `{"id":1,"at":"x","byID":{"1":{"query":null}}}`, `{`} {
		f.Add([]byte(seed))
	}
	d, err := schema.NewDecoder[deep](nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		value, err := d.Decode(t.Context(), raw)
		if err != nil {
			if diff := cmp.Diff(deep{}, value); diff != "" {
				t.Errorf("a value beside an error:\n%s", diff)
			}
			_ = err.Error()
			return
		}
		text, err := jsonv2.Marshal(value)
		if err != nil {
			t.Skip(err) // a year that RFC 3339 cannot write, say
		}
		again, err := d.Decode(t.Context(), text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(value, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}

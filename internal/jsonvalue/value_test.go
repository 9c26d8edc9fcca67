package jsonvalue_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonvalue"
)

type (
	badText    struct{ string }
	badJSON    string
	namedBytes []byte
	namedText  string
	endless    *endless
	rawValue   struct{ Raw json.RawMessage }
	pointers   struct {
		A *string      `json:"a,omitempty"`
		B *json.Number `json:"b"`
		C *[]byte      `json:"c"`
	}
	fields struct {
		Number  json.Number            `json:"number"`
		Quoted  json.Number            `json:"quoted,string"`
		Int     int                    `json:"int,string"`
		Any     any                    `json:"any"`
		List    []json.Number          `json:"list"`
		Map     map[string]json.Number `json:"map"`
		Keys    map[json.Number]int    `json:"keys"`
		Omitted json.Number            `json:"omitted,omitempty"`
		Text    string                 `json:"text"`
		Wait    time.Duration          `json:"wait"`
		When    time.Time              `json:"when"`
	}
)

func (b badText) MarshalText() ([]byte, error) { return []byte(b.string), nil }
func (b badJSON) MarshalJSON() ([]byte, error) { return []byte(b), nil }

// values have the same JSON as with encoding/json, compared as JSON values.
var values = map[string]any{
	"number":                  json.Number("12"),
	"number with fraction":    json.Number("1.50"),
	"number beyond float64":   json.Number("123456789012345678901234567890.5"),
	"number with exponent":    json.Number("-1e400"),
	"number that is empty":    json.Number(""),
	"pointer to number":       new(json.Number),
	"numbers":                 []json.Number{"1", "2.5"},
	"numbers as any":          []any{json.Number("1"), map[string]any{"a": json.Number("2")}},
	"numbers as keys":         map[json.Number]json.Number{"1": "2"},
	"fields":                  fields{Number: "1", Quoted: "2", Any: json.Number("3"), List: []json.Number{"4"}, Map: map[string]json.Number{"a": "5"}, Keys: map[json.Number]int{"6": 7}, Text: "a\xffb", Wait: time.Second},
	"pointers":                pointers{A: new(string), B: new(json.Number), C: &[]byte{1}},
	"nil pointers":            pointers{},
	"text":                    "a\xffb",
	"text that is cut":        "caf\xc3",
	"named text":              namedText("\xff"),
	"surrogate":               "\xed\xa0\x80",
	"texts":                   []string{"\xff\xfe", "é"},
	"text as any":             map[string]any{"a": []any{"\xff"}},
	"key":                     map[string]int{"a\xff": 1},
	"text of a method":        badText{"\xff"},
	"text of a method as key": map[badText]int{{"\xff"}: 1},
	"JSON":                    json.RawMessage(`{ "a" : [1.0, 9007199254740993] }`),
	"JSON of a method":        badJSON(`{"a":1}`),
	"no JSON":                 rawValue{},
	"bytes":                   []byte{0xfb, 0xff},
	"named bytes":             namedBytes{1, 2},
	"time":                    time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	"duration":                90 * time.Second,
	"duration as key":         map[time.Duration]int{time.Second: 1},
	"durations":               []any{time.Second, map[string]time.Duration{"a": 1}},
	"integer":                 int64(math.MaxInt64),
	"unsigned":                uint64(math.MaxUint64),
	"integer keys":            map[int]string{-1: "a"},
	"float":                   []float64{0, 0.1, 1e21, 1e-7, -2.5, math.MaxFloat64},
	"float32":                 []float32{0.1, 1e21},
	"big integer":             new(big.Int).Lsh(big.NewInt(1), 100),
	"big float":               big.NewFloat(1.5),
	"address":                 netip.MustParseAddr("127.0.0.1"),
	"markup":                  "<a href='x'>&\u2028",
	"empty":                   []any{nil, true, false, "", 0},
}

func TestMarshalAsEncodingJSON(t *testing.T) {
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			want, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := jsonvalue.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, want), parse(t, got)); diff != "" {
				t.Errorf("encoding/json: %s\nhere:          %s\n%s", want, got, diff)
			}
			if appended, err := jsonvalue.Append([]byte("x"), value); err != nil || string(appended) != "x"+string(got) {
				t.Errorf("Append: %s, %v", appended, err)
			}
			// What was encoded is decoded like encoding/json does.
			if reflect.TypeOf(value).Comparable() || reflect.TypeOf(value).Kind() == reflect.Slice {
				theirs, ours := reflect.New(reflect.TypeOf(value)), reflect.New(reflect.TypeOf(value))
				theirErr, ourErr := json.Unmarshal(want, theirs.Interface()), jsonvalue.Unmarshal(got, ours.Interface())
				if (theirErr == nil) != (ourErr == nil) {
					t.Fatalf("encoding/json: %v, here: %v", theirErr, ourErr)
				}
				if a, b := theirs.Elem().Interface(), ours.Elem().Interface(); theirErr == nil && !strings.Contains(name, "any") && !strings.Contains(name, "JSON") && !reflect.DeepEqual(a, b) {
					t.Errorf("encoding/json decodes %#v, here %#v", a, b)
				}
			}
		})
	}
}

func parse(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func TestMarshalDiffersFromEncodingJSON(t *testing.T) {
	link, err := url.Parse("https://example.com/a?b=c")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"nil slice", []int(nil), `[]`},
		{"nil map", map[string]int(nil), `{}`},
		{"array of bytes", [2]byte{1, 2}, `"AQI="`},
		{"URL", link, `"https://example.com/a?b=c"`},
		{"URL as any", []any{*link}, `["https://example.com/a?b=c"]`},
		{"nil URL", (*url.URL)(nil), `null`},
		{"equal keys", map[string]int{"\xff": 1, "\xfe": 1}, `{"` + "\ufffd" + `":1}`},
		{"JSON with equal keys", []any{json.RawMessage(`{"a":1,"a":9007199254740993}`)}, `[{"a":9007199254740993}]`},
		{"JSON that is not UTF-8", json.RawMessage("\"\xff\""), `"` + "\ufffd" + `"`},
		{"JSON of a method that is not UTF-8", badJSON("\"\xff\""), `"` + "\ufffd" + `"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := jsonvalue.Marshal(test.value)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
			got, err = jsonvalue.Append(nil, test.value)
			if err != nil || string(got) != test.want {
				t.Errorf("Append: got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestMarshalRefuses(t *testing.T) {
	self := map[string]any{}
	self["self"] = self
	list := []any{nil}
	list[0] = list
	var own any
	own = &own
	var pointer endless
	pointer = &pointer
	for name, value := range map[string]any{
		"number":       json.Number("1x"),
		"words":        json.Number("NaN"),
		"spaces":       json.Number(" 1"),
		"value":        []any{json.Number(`{}`)},
		"two numbers":  json.Number("1 2"),
		"infinity":     math.Inf(1),
		"channel":      make(chan int),
		"own map":      self,
		"own list":     list,
		"own pointer":  own,
		"own pointers": []any{map[string]any{"a": own}},
		"endless":      pointer,
		"JSON":         json.RawMessage("{"),
	} {
		if raw, err := jsonvalue.Marshal(value); err == nil {
			t.Errorf("%s: got %s, want an error", name, raw)
		}
	}
}

func TestUnmarshalNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"0":                                 0.0,
		"-0":                                math.Copysign(0, -1),
		"1":                                 1.0,
		"0.1":                               0.1,
		"1.10":                              1.1,
		"10":                                10.0,
		"1e2":                               100.0,
		"9007199254740992":                  9007199254740992.0,
		"9007199254740993":                  json.Number("9007199254740993"),
		"-9007199254740993":                 json.Number("-9007199254740993"),
		"9007199254740993.0":                json.Number("9007199254740993.0"),
		"9223372036854775807":               json.Number("9223372036854775807"),
		"18446744073709551615":              json.Number("18446744073709551615"),
		"100000000000000000000000":          1e23,
		"100000000000000000000001":          json.Number("100000000000000000000001"),
		"1e400":                             json.Number("1e400"),
		"-1e400":                            json.Number("-1e400"),
		"1e-400":                            json.Number("1e-400"),
		"0e9999999999999999999":             0.0,
		"1e9999999999999999999":             json.Number("1e9999999999999999999"),
		"0.10000000000000001":               0.1,
		"0.30000000000000004":               0.30000000000000004,
		"1.0000000000000000000000000000001": json.Number("1.0000000000000000000000000000001"),
		"19.990000000000000000000000":       19.99,
		"1.7976931348623157e308":            math.MaxFloat64,
		"5e-324":                            5e-324,
	} {
		var direct any
		nested := map[string]any{}
		list := struct{ List []any }{}
		if err := errors.Join(jsonvalue.Unmarshal([]byte(text), &direct), jsonvalue.Unmarshal([]byte(`{"a":`+text+`}`), &nested), jsonvalue.Unmarshal([]byte(`{"List":[`+text+`]}`), &list)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, got := range []any{direct, nested["a"], list.List[0]} {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %T %v, want %T %v", text, got, got, want, want)
			}
		}
		if n, ok := want.(json.Number); ok {
			if raw, err := jsonvalue.Marshal(nested); err != nil || string(raw) != `{"a":`+string(n)+`}` {
				t.Errorf("%s: encoded again: %s, %v", text, raw, err)
			}
		}
	}
}

func TestUnmarshal(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want any
	}{
		{`12`, json.Number("12")},
		{`"12"`, json.Number("12")},
		{`null`, json.Number("")},
		{`{"1":1}`, map[json.Number]json.Number{"1": "1"}},
		{`"\ud83d"`, "\ufffd"},
		{"\"\xff\"", "\ufffd"},
		{`"-_8"`, []byte{0xfb, 0xff}},
		{`"+/8"`, []byte{0xfb, 0xff}},
		{`"+/8="`, []byte{0xfb, 0xff}},
		{`"-_\r\n8=\n"`, namedBytes{0xfb, 0xff}},
		{`" + /\t8 "`, []byte{0xfb, 0xff}},
		{`"-_8"`, [2]byte{0xfb, 0xff}},
		{`["+/8=","-_8"]`, [][]byte{{0xfb, 0xff}, {0xfb, 0xff}}},
		{`{"a":"-_8"}`, map[string]namedBytes{"a": {0xfb, 0xff}}},
		{`{"a":1,"a":2}`, map[string]any{"a": 2.0}},
		{`"https://example.com/"`, url.URL{Scheme: "https", Host: "example.com", Path: "/"}},
		{`[null,true,"a",{}]`, []any{nil, true, "a", map[string]any{}}},
	} {
		got := reflect.New(reflect.TypeOf(test.want))
		if err := jsonvalue.Unmarshal([]byte(test.raw), got.Interface()); err != nil || !reflect.DeepEqual(got.Elem().Interface(), test.want) {
			t.Errorf("%s: got %#v, %v, want %#v", test.raw, got.Elem().Interface(), err, test.want)
		}
	}
	for _, test := range []struct {
		raw  string
		into any
	}{
		{`"1x"`, new(json.Number)}, {`true`, new(json.Number)}, {`{}`, new(json.Number)}, {`""`, new(json.Number)},
		{`"a!"`, new([]byte)}, {`"A"`, new([]byte)}, {`"AQ==="`, new([]byte)}, {`"A=Q="`, new([]byte)}, {`"-_8"`, new([3]byte)},
		{`"a%zz"`, new(url.URL)}, {`{"a":`, new(any)}, {`[1,]`, new(any)}, {`1 2`, new(any)},
	} {
		if err := jsonvalue.Unmarshal([]byte(test.raw), test.into); err == nil {
			t.Errorf("%s into %T: got %v, want an error", test.raw, test.into, reflect.ValueOf(test.into).Elem())
		}
	}
}

func TestUnmarshalIntoPointerInInterface(t *testing.T) {
	var n int
	var into any = &n
	if err := jsonvalue.Unmarshal([]byte("7"), &into); err != nil || n != 7 {
		t.Errorf("got %d, %v", n, err)
	}
}

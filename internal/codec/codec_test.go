package codec_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/dovetail-go/dovetail/internal/codec"
	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/internal/racetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type color string

type point struct {
	X float64 `json:"x"`
	Y float32 `json:"y,omitzero"`
}

type plain struct {
	Text  string `json:"text"`
	Color color  `json:",omitempty"`
	Yes   bool   `json:"yes,omitempty,omitzero"`
	I     int    `json:"i"`
	I8    int8   `json:"i8"`
	I64   int64  `json:"i64,omitzero"`
	U     uint
	U16   uint16  `json:"u16,omitempty"`
	F     float64 `json:"f,omitempty"`
	G     float64 `json:"g,omitzero"`
	At    point   `json:"at"`
	From  point   `json:"from,omitzero"`
	To    point   `json:"to,omitempty"` //nolint:modernize // without effect, as in the library
	Out   string  `json:"-"`
	own   int
}

var texts = []string{
	`{}`, `{"text":"a","i":1}`, ` { "text" : "a\n\u00e9\ud83d\ude00" , "yes" : true } `, `{"yes":false}`,
	`{"i":-9223372036854775808,"i64":9223372036854775807,"i8":-128,"U":18446744073709551615,"u16":65535}`,
	`{"i":-0}`, `{"f":-0.0,"g":1e-7}`, `{"f":1e400}`, `{"at":{"x":1.5,"y":0.1}}`, `{"at":{"y":1e39}}`, `{"at":{"x":1},"from":{}}`,
	`{"i8":128}`, `{"U":-1}`, `{"i":1.0}`, `{"i":1e1}`, `{"i":"1"}`, `{"text":1}`, `{"yes":1}`, `{"at":[]}`, `{"text":null,"at":null,"i":null,"yes":null}`,
	`{"text":"a","text":"b"}`, `{"at":{"x":1,"x":2}}`, `{"Text":"a"}`, `{"\u0074ext":"a"}`, `{"unknown":[{}],"i":2}`, `{"own":1}`, `{"Out":"a"}`,
	``, `null`, `[]`, `1`, `{"text":"a"} x`, `{"text":"a"`, "{\"text\":\"\xff\"}", `{"text":"\ud800"}`, `{"i":01}`, `{"i":1,}`,
}

var values = []any{
	plain{}, &plain{Text: "<&>\u2028\x7f\"\\/\b\f\n\r\t\x00\x1f é😀", own: 1, Out: "no"},
	plain{Color: "red", Yes: true, I: math.MinInt64, I8: -1, I64: math.MaxInt64, U: math.MaxUint, U16: 7},
	plain{F: 0.1, G: 123456789.5, At: point{1e20, 0}, To: point{-1e-6, 0}},
	plain{F: math.Copysign(0, -1), G: math.Copysign(0, -1)},
	plain{G: 1e21}, plain{G: 1e-7}, plain{At: point{0, 0.1}}, plain{F: math.NaN()}, plain{G: math.Inf(1)},
	plain{Text: "\xff"}, (*plain)(nil), "text", color("red"), true, 1, int8(-1), uint64(math.MaxUint64), 1.5, float32(1.5),
}

// same compares floats by their bits: minus zero is not zero.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) && strings.EqualFold(sprint(a), sprint(b))
}

func sprint(v any) string {
	text, _ := json.Marshal(v) // writes -0
	return string(text)
}

// invalidText has the library decode a half surrogate pair to U+FFFD.
var invalidText = jsontext.AllowInvalidUTF8(true)

// decodes compares Decode with the library, which decodes what Decode leaves to it.
func decodes(t *testing.T, text []byte) (done bool) {
	t.Helper()
	var want, got plain
	wantErr := jsonv2.Unmarshal(text, &want, invalidText)
	done = codec.For(reflect.TypeFor[plain]()).Decode(text, &got)
	if !done {
		if err := jsonv2.Unmarshal(text, &got, invalidText); (err == nil) != (wantErr == nil) {
			t.Fatalf("Decode(%q) changes the library's error to %v, want %v", text, err, wantErr)
		}
	}
	if done && wantErr != nil || wantErr == nil && !same(got, want) {
		t.Errorf("Decode(%q) = %v, %+v, want %+v, error %v", text, done, got, want, wantErr)
	}
	return done
}

func TestDecodeLikeTheLibrary(t *testing.T) {
	for _, text := range texts {
		decodes(t, []byte(text))
	}
}

func TestDecodeWithoutTheLibrary(t *testing.T) {
	for i, text := range texts[:8] {
		if done := decodes(t, []byte(text)); done != (i < 7) {
			t.Errorf("Decode(%q) = %v", text, done)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { decodes(t, text) })
}

// appends compares Append with the library.
func appends(t *testing.T, value any) (done bool) {
	t.Helper()
	want, err := jsonv2.Marshal(value, jsonv2.Deterministic(true), jsonv1.OmitEmptyWithLegacySemantics(true))
	got, done := codec.For(reflect.TypeOf(value)).Append([]byte("-"), value)
	if done && (err != nil || string(got) != "-"+string(want)) {
		t.Errorf("Append(%+v) = %s, want %s, error %v", value, got, want, err)
	}
	if !done && string(got) != "-" {
		t.Errorf("Append(%+v) leaves %s", value, got)
	}
	return done
}

func TestAppendLikeTheLibrary(t *testing.T) {
	for i, value := range values {
		if done := appends(t, value); i < 5 && !done {
			t.Errorf("Append(%+v) is left to the library", value)
		}
	}
}

// Decoding allocates only the string, and encoding only the text.
func TestBudget(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the race detector allocates too")
	}
	type echo struct {
		Message string `json:"message"`
		N       int    `json:"n"`
	}
	c, in := codec.For(reflect.TypeFor[echo]()), &echo{strings.Repeat("x", 100), 12345}
	text, _ := c.Append(nil, in)
	for what, do := range map[string]func() bool{
		"decoding": func() bool { return c.Decode(text, in) },
		"encoding": func() bool { _, ok := c.Append(nil, in); return ok },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if !do() {
				t.Fatal(what + " is left to the library")
			}
		}); n > 1 {
			t.Errorf("%s: %v allocations, want at most 1", what, n)
		}
	}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { c.Append(buf, in) }); n > 0 {
		t.Errorf("encoding into a large buffer: %v allocations", n)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("text", "red", true, int64(-1), uint64(1), 1.5, 0.0)
	f.Fuzz(func(t *testing.T, text, c string, yes bool, i int64, u uint64, x, y float64) {
		value := plain{Text: text, Color: color(c), Yes: yes, I: int(i), I8: int8(i), I64: i, U: uint(u), U16: uint16(u), F: x, G: y, At: point{y, float32(x)}}
		appends(t, value)
		value.At.Y = 0
		appends(t, &value)
	})
}

type textMarshaler struct{ Text string }

func (textMarshaler) MarshalText() ([]byte, error) { return nil, nil }

type jsonUnmarshaler struct{ Text string }

func (*jsonUnmarshaler) UnmarshalJSONFrom(*jsontext.Decoder) error { return nil }

type isZero string

func (isZero) IsZero() bool { return true }

func TestOthersAreNotPlain(t *testing.T) {
	for _, other := range []any{
		time.Time{}, json.Number("1"), jsontext.Value("1"), []string{}, map[string]int{}, new(*int), textMarshaler{}, jsonUnmarshaler{}, struct{}{},
		struct{ own int }{}, struct{ point }{}, struct{ *point }{}, struct{ At *point }{}, struct{ Any any }{}, struct{ List []int }{},
		struct{ B textMarshaler }{}, struct{ B jsonUnmarshaler }{},
		struct {
			A int
			B int `json:"A"`
		}{},
		struct {
			A int `json:"a,string"`
		}{},
		struct {
			A int `json:"a,"` //nolint:staticcheck // what is malformed is left to the library
		}{},
		struct {
			A int `json:"a,case:ignore"`
		}{},
		struct {
			A int `json:"'a'"`
		}{},
		struct {
			A int `json:"ä"`
		}{},
		struct {
			A isZero `json:"a,omitzero"`
		}{},
	} {
		c := codec.For(reflect.TypeOf(other))
		if _, ok := c.Append(nil, other); ok || c.Decode([]byte("{}"), reflect.New(reflect.TypeOf(other)).Interface()) {
			t.Errorf("%T is plain", other)
		}
	}
	if (*codec.Codec)(nil).Decode([]byte("1"), new(int)) {
		t.Error("no codec decodes")
	}
	if _, ok := (*codec.Codec)(nil).Append(nil, 1); ok {
		t.Error("no codec encodes")
	}
	of := codec.For(reflect.TypeFor[int]())
	if _, ok := of.Append(nil, "text"); ok || of.Decode([]byte("1"), new(uint)) {
		t.Error("a codec accepts other types")
	}
}

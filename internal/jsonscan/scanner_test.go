package jsonscan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSyntaxErrors(t *testing.T) {
	for _, test := range []struct {
		text   string
		offset int
		want   string
	}{
		{"", 0, "expected a value, found the end of the text"},
		{" \t", 2, "expected a value, found the end of the text"},
		{"\uFEFF{}", 0, "expected a value, found a byte order mark"},
		{"\xEFx", 0, "expected a value, found the byte 0xEF"},
		{"\x00", 0, "expected a value, found the byte 0x00"},
		{"nul", 0, `expected null, found "nul"`},
		{"[tru]", 1, `expected true, found "tru]"`},
		{"[False]", 1, "expected a value, found 'F'"},
		{"fals", 0, `expected false, found "fals"`},
		{"-", 1, "expected a digit, found the end of the text"},
		{"-a", 1, "expected a digit, found 'a'"},
		{"01", 0, "a number must not begin with 0 and another digit"},
		{"-01", 1, "a number must not begin with 0 and another digit"},
		{"1.", 2, "expected a digit after the decimal point, found the end of the text"},
		{"1.e2", 2, "expected a digit after the decimal point, found 'e'"},
		{"1e", 2, "expected a digit in the exponent, found the end of the text"},
		{"1E+x", 3, "expected a digit in the exponent, found 'x'"},
		{"+1", 0, "expected a value, found '+'"},
		{".5", 0, "expected a value, found '.'"},
		{"1 2", 2, "expected the end of the text, found '2'"},
		{"[1,]", 3, "expected a value, found ']'"},
		{"[,1]", 1, "expected a value, found ','"},
		{"[1 2]", 3, "expected ',' or ']' after an element, found '2'"},
		{"[1}", 2, "expected ',' or ']' after an element, found '}'"},
		{`{"a":1]`, 6, "expected ',' or '}' after a member, found ']'"},
		{`{"a":1,}`, 7, "expected the name of a member, found '}'"},
		{`{,}`, 1, "expected the name of a member or '}', found ','"},
		{`{a:1}`, 1, "expected the name of a member or '}', found 'a'"},
		{`{"a" 1}`, 5, "expected ':' after the name of a member, found '1'"},
		{`{"a":}`, 5, "expected a value, found '}'"},
		{`"abc`, 4, "expected '\"' at the end of a string, found the end of the text"},
		{"\"a\nb\"", 2, "a control character in a string must be escaped, found the byte 0x0A"},
		{"\"aaaaaaaaaaa\x1fb\"", 12, "a control character in a string must be escaped, found the byte 0x1F"},
		{"\"a\xffb\"", 2, "a string must be valid UTF-8, found the byte 0xFF"},
		{"\"\xed\xa0\x80\"", 1, "a string must be valid UTF-8, found the byte 0xED"},
		{"\"\xc0\x80\"", 1, "a string must be valid UTF-8, found the byte 0xC0"},
		{"\"\xc3", 1, "a string must be valid UTF-8, found the byte 0xC3"},
		{`"\x"`, 2, "expected an escape after '\\', found 'x'"},
		{`"\`, 2, "expected an escape after '\\', found the end of the text"},
		{`"\u12g4"`, 1, "expected four hexadecimal digits after \\u"},
		{`"\u12`, 1, "expected four hexadecimal digits after \\u"},
	} {
		err := jsonscan.Valid([]byte(test.text))
		want := &jsonscan.SyntaxError{Offset: test.offset, Message: test.want}
		var got *jsonscan.SyntaxError
		if !errors.As(err, &got) || *got != *want {
			t.Errorf("%q:\n got %v\nwant %v", test.text, err, want)
		}
	}
}

func TestValid(t *testing.T) {
	for _, text := range []string{
		"null", " true ", "\tfalse\r\n", "-0", "0", "10", "-1.0e-0", "1E400", `""`, "{}", "[]", "[ ]", "{ }",
		`[{"a":1},[[1],2],{"b":[]},[{}],3]`, `{"a":[{}],"b":{"c":[]},"d":1}`, // a level is an object first, then an array
		`"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00\ud83d\ude00"`, "\"\x7f\uFFFD\U0010FFFF\"", `{"a":1,"a":2}`, `{"":{"":{}}}`,
	} {
		if err := jsonscan.Valid([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A caller that walks members and elements itself gets the same errors as from Value.
func TestWalkRefusesWhatValueRefuses(t *testing.T) {
	for _, text := range []string{
		`{"a":1]`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a" 1}`, `{"a":}`, `{"a":1`, `{"a"`, `{`, `{"a":1,`,
		`[1,]`, `[,1]`, `[1 2]`, `[1}`, `[1`, `[`, `[1,`, `{"\x":1}`, "{\"\xff\":1}", `[1]]`, `{}}`, `{"a":[1,]}`,
		`{"a":{"b":1,}}`,
	} {
		walked, scanned := walk(text), jsonscan.Valid([]byte(text))
		if walked == nil || scanned == nil {
			t.Errorf("%s: walked: %v, scanned: %v", text, walked, scanned)
			continue
		}
		if strings.HasSuffix(text, "[") || strings.HasSuffix(text, "[1,") || strings.HasPrefix(text, "[,") || text == "[1,]" {
			continue // an element says only that a value is missing when it is read
		}
		if walked.Error() != scanned.Error() {
			t.Errorf("%s:\n walked %v\nscanned %v", text, walked, scanned)
		}
	}
}

// walk reads a text with Member and Element at its top.
func walk(text string) error {
	s := jsonscan.New([]byte(text))
	enter, next := s.EnterArray, s.Element
	if s.Kind() == jsonscan.Object {
		enter = s.EnterObject
		next = func(first bool) (bool, error) { _, ok, err := s.Member(first); return ok, err }
	}
	if err := enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		ok, err := next(first)
		if err != nil {
			return err
		}
		if !ok {
			return s.End()
		}
		if _, err := s.Value(); err != nil {
			return err
		}
	}
}

func TestWalk(t *testing.T) {
	text := ` { "name" : "echo" , "list":[ 1 , {"x":[]} ,"s"] ,"n":-1.5e3, "empty":{}, "none":[] } `
	s := jsonscan.New([]byte(text))
	var got []string
	see := func(raw []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	if err := s.EnterObject(); err != nil {
		t.Fatal(err)
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if at := s.KeyOffset(); text[at:at+len(key)] != string(key) {
			t.Errorf("key %s is not at %d", key, at)
		}
		got = append(got, string(key), s.Kind().String())
		switch s.Kind() {
		case jsonscan.String:
			see(s.String())
		case jsonscan.Number:
			see(s.Number())
		case jsonscan.Array:
			if err := s.EnterArray(); err != nil {
				t.Fatal(err)
			}
			for first := true; ; first = false {
				ok, err := s.Element(first)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				see(s.Value())
			}
		default:
			see(s.Value())
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"name"`, "a string", `"echo"`,
		`"list"`, "an array", `1`, `{"x":[]}`, `"s"`,
		`"n"`, "a number", `-1.5e3`,
		`"empty"`, "an object", `{}`,
		`"none"`, "an array",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s.Offset() != len(text) {
		t.Errorf("offset %d, want %d", s.Offset(), len(text))
	}
}

func TestScannerRefusesOtherKinds(t *testing.T) {
	for _, test := range []struct {
		name string
		scan func(*jsonscan.Scanner) error
		want string
	}{
		{"String", func(s *jsonscan.Scanner) error { _, err := s.String(); return err }, "expected a string, found 't'"},
		{"Number", func(s *jsonscan.Scanner) error { _, err := s.Number(); return err }, "expected a number, found 't'"},
		{"EnterObject", (*jsonscan.Scanner).EnterObject, "expected an object, found 't'"},
		{"EnterArray", (*jsonscan.Scanner).EnterArray, "expected an array, found 't'"},
		{"End", (*jsonscan.Scanner).End, "expected the end of the text, found 't'"},
	} {
		s := jsonscan.New([]byte(" true"))
		var got *jsonscan.SyntaxError
		if err := test.scan(&s); !errors.As(err, &got) || got.Offset != 1 || got.Message != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]jsonscan.Kind{
		"": jsonscan.EOF, " \n": jsonscan.EOF, " null": jsonscan.Null, "true": jsonscan.Bool, "\tfalse": jsonscan.Bool,
		"-1": jsonscan.Number, "0": jsonscan.Number, "9": jsonscan.Number, `"`: jsonscan.String,
		"\r{": jsonscan.Object, "[": jsonscan.Array, "x": jsonscan.Invalid, "+1": jsonscan.Invalid,
	} {
		if got := jsonscan.KindOf([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if got := jsonscan.New([]byte(text)).Kind(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestDepth(t *testing.T) {
	nested := func(depth int) string {
		var b strings.Builder
		for i := range depth {
			b.WriteString([]string{`[`, `{"a":`, `[1,`, `{"b":[],"a":`}[i%4])
		}
		b.WriteString("null")
		for i := depth - 1; i >= 0; i-- {
			b.WriteByte("]}]}"[i%4])
		}
		return b.String()
	}
	for _, depth := range []int{1, 2, 63, 64, 65, 127, 128, 129, jsonscan.MaxDepth - 1} {
		text := nested(depth)
		if err := jsonscan.Valid([]byte(text)); err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
		// With the other bracket somewhere, it is not valid any more.
		last := strings.LastIndexAny(text, "]}")
		for _, at := range []int{last, last - depth/2} {
			broken := []byte(text)
			broken[at] ^= ']' ^ '}'
			if jsonscan.Valid(broken) == nil {
				t.Errorf("depth %d: the wrong bracket at %d was accepted", depth, at)
			}
		}
	}
	deep := strings.Repeat("[", jsonscan.MaxDepth) + strings.Repeat("]", jsonscan.MaxDepth)
	if err := jsonscan.Valid([]byte(deep)); err != nil {
		t.Errorf("depth %d: %v", jsonscan.MaxDepth, err)
	}
	want := fmt.Sprintf("values nest more than %d deep", jsonscan.MaxDepth)
	for _, tooDeep := range []string{"[" + deep + "]", `{"a":` + deep + "}", strings.Repeat("[", 100_000)} {
		for _, err := range []error{jsonscan.Valid([]byte(tooDeep)), walk(tooDeep)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.10s…: %v, want %q", tooDeep, err, want)
			}
		}
	}
}

func TestEnterCountsDepth(t *testing.T) {
	deep := []byte(strings.Repeat("[", jsonscan.MaxDepth+1))
	s := jsonscan.New(deep)
	for i := range jsonscan.MaxDepth {
		if err := s.EnterArray(); err != nil {
			t.Fatalf("level %d: %v", i, err)
		}
	}
	if err := s.EnterArray(); err == nil {
		t.Error("one level too many was accepted")
	}
	// Closing gives the level back.
	s = jsonscan.New([]byte("[" + strings.Repeat("[],", 2*jsonscan.MaxDepth) + "1]"))
	if err := s.EnterArray(); err != nil {
		t.Fatal(err)
	}
	for range 2 * jsonscan.MaxDepth {
		if err := s.EnterArray(); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Element(true); ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := s.Element(false); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

// A special byte is found at every distance from the beginning of a word, and
// whatever follows it.
func TestStringsAtEveryOffset(t *testing.T) {
	for length := range 40 {
		plain := strings.Repeat("x", length)
		for _, tail := range []string{"", "y", strings.Repeat("\x7f", 9), "é", "日本語日本語", "😀", `\n`, `\\`, `\"`} {
			text := `"` + plain + tail + `"`
			if err := jsonscan.Valid([]byte(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			for _, bad := range []string{"\x00", "\x1f", "\n", "\x80", "\xff", `\`, `"`} {
				if jsonscan.Valid([]byte(`"`+plain+bad+tail+`"`)) == nil && bad != `\` {
					t.Errorf("%q was accepted after %d bytes and before %q", bad, length, tail)
				}
			}
		}
	}
}

func TestEveryPrefixIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"a":[1.5e+3,true,false,null,{"b":"c\n\uD83D\uDE00é"}],"d":{},"e":[]}`,
		`"a string with \"escapes\" and ünïcödé"`,
		`[[[[]]]]`,
	} {
		if err := jsonscan.Valid([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for end := range len(text) {
			if jsonscan.Valid([]byte(text[:end])) == nil {
				t.Errorf("accepted: %q", text[:end])
			}
		}
	}
}

func TestValuesEndWhereTheirSliceEnds(t *testing.T) {
	s := jsonscan.New([]byte(`["a",1]`))
	if err := s.EnterArray(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Element(true); err != nil {
		t.Fatal(err)
	}
	value, err := s.Value()
	if err != nil {
		t.Fatal(err)
	}
	if cap(value) != len(value) {
		t.Error("appending to a value would write into the text after it")
	}
}

func TestScanningDoesNotAllocate(t *testing.T) {
	data := []byte(`{"a":[1,{"b":"c\u00e9"},"` + strings.Repeat("x", 1000) + `"],"d":{"e":null}}`)
	var members jsonscan.Members
	buf := make([]byte, 0, 4096)
	edits := []jsonscan.Edit{{Name: "d", Value: []byte("1")}, {Name: "z", Value: []byte("2")}}
	text := strings.Repeat("héllo\n", 100)
	for name, f := range map[string]func(){
		"Valid":           func() { _ = jsonscan.Valid(data) },
		"ReadObject":      func() { members, _ = jsonscan.ReadObject(data) },
		"Members.Get":     func() { _ = members.Get("d") },
		"Splice":          func() { buf, _ = jsonscan.Splice(buf[:0], data, edits...) },
		"AppendString":    func() { buf = jsonscan.AppendString(buf[:0], text) },
		"AppendLine":      func() { buf = jsonscan.AppendLine(buf[:0], data) },
		"AppendUnquoted":  func() { buf = jsonscan.AppendUnquoted(buf[:0], []byte(`"a\u00e9\n"`)) },
		"KeyIs":           func() { _ = jsonscan.KeyIs([]byte(`"a\u00e9\n"`), "aé\n") },
		"Scanner by hand": func() { _ = scanByHand(data) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func scanByHand(data []byte) error {
	s := jsonscan.New(data)
	if err := s.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if _, ok, err := s.Member(first); err != nil || !ok {
			return err
		}
		if _, err := s.Value(); err != nil {
			return err
		}
	}
}

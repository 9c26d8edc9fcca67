package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// halfSurrogates lets jsontext accept half surrogate pairs, but not bytes that are not UTF-8.
func halfSurrogates(data []byte) jsontext.Options {
	return jsontext.AllowInvalidUTF8(utf8.Valid(data))
}

// Two other parsers judge the same text: one as strict as this one, and one that lets broken strings pass.
func FuzzValid(f *testing.F) {
	for _, text := range []string{
		``, `null`, ` [1,-2.5e+3,"a\u00e9\uD83D\uDE00",{"b":[]}] `, `{"a":1,"a":2}`, `"\uD800"`, "\"\xff\"", "\uFEFF1", `[1,]`, `01`, `1e5`,
		`[{"a":{"b":1},"b":[{"a":1},{"a":2}]}]`, `[{"a":[{"b":{},"c":{"d":1},"b":2}]}]`, `{"a":{"a":{"a":1}},"\u0061":2}`,
		`"aaaaaaaa\naaaaaaaa"`, "\"\x1f\"", `{"a" :{ }}`, "\"日本語日本語\"", strings.Repeat("[", 70) + strings.Repeat("]", 70),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := jsonscan.Valid(data)
		if err != nil && strings.Contains(err.Error(), "nest more than") {
			return // the others let values nest deeper
		}
		accepted := err == nil
		strict := jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), halfSurrogates(data))
		if accepted != strict {
			t.Errorf("jsontext accepts: %v; here: %v", strict, err)
		}
		switch lenient := json.Valid(data); {
		case accepted && !lenient:
			t.Error("encoding/json refuses what was accepted")
		case lenient && !accepted && utf8.Valid(data):
			t.Errorf("encoding/json accepts what was refused: %v", err)
		}
		if !accepted {
			return
		}
		line := jsonscan.AppendLine(nil, data)
		if bytes.ContainsAny(line, "\n\r") || jsonscan.Valid(line) != nil {
			t.Errorf("as a line: %q", line)
		}
		if walked := walkAll(data); walked != nil {
			t.Errorf("walked: %v", walked)
		}
	})
}

// walkAll reads a text down to its last level without Value where it can.
func walkAll(data []byte) error {
	s := jsonscan.New(data)
	if err := walkValue(&s); err != nil {
		return err
	}
	return s.End()
}

func walkValue(s *jsonscan.Scanner) (err error) {
	switch s.Kind() {
	case jsonscan.Object:
		err = s.EnterObject()
		for first := true; err == nil; first = false {
			var ok bool
			if _, ok, err = s.Member(first); !ok {
				return err
			}
			err = walkValue(s)
		}
	case jsonscan.Array:
		err = s.EnterArray()
		for first := true; err == nil; first = false {
			var ok bool
			if ok, err = s.Element(first); !ok {
				return err
			}
			err = walkValue(s)
		}
	case jsonscan.String:
		_, err = s.String()
	case jsonscan.Number:
		_, err = s.Number()
	default:
		_, err = s.Value()
	}
	return err
}

// agreeing are texts for the comparison with another parser. Tests of the official suites have more.
var agreeing = []string{
	``, ` `, `null`, ` true `, `-0.0e+00`, `01`, `1.`, `.5`, `-`, `1e`, `[1,2 , 3]`, `[1,]`, `[,1]`, `[1 2]`, `{}`, `{ "a" : [ ] , "b" : { } }`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"a":1},"b":{"a":2}}`, `[{"a":1},{"a":2}]`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"":0,"":1}`,
	`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\u00e9é\/\b\f\n\r\t\"\\"`, `"\x"`, `"\u12"`, "\"\x00\"", "\"\x7f\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
	"\"\xf4\x90\x80\x80\"", "\xef\xbb\xbf1", "\u00a01", "[\v1]", `"a`, `["a`, `{"a`, `nul`, `nulll`, `true false`, `[[[[]]]`, `[]]`, `"\ufffe"`, `{"é":1,"\u00e9":2}`,
	`123456789012345678901234567890.1e-999`, `{"a":"b" "c":1}`, `["\u0000"]`, `/**/1`, `'a'`, `NaN`, `+1`, `0x1`, "\r\n\t 1", `{"\ud83d\ude00":1,"😀":2}`,
}

// A scanned is one token of a text.
type scanned struct {
	end  int // the offset after it
	text string
}

// TestScannerAgrees compares with another strict parser: whether a text is valid, where the tokens end,
// and what they are.
func TestScannerAgrees(t *testing.T) {
	for _, text := range agreeing {
		compareTokens(t, []byte(text))
		for end := range len(text) {
			compareTokens(t, []byte(text[:end]+`,`+text[end:]))
		}
	}
	for _, text := range allTexts(`{}[]",:1a\ `, 5) {
		compareTokens(t, []byte(text))
	}
}

// allTexts returns all texts of these characters, up to a length.
func allTexts(alphabet string, most int) []string {
	texts, last := []string{""}, []string{""}
	for range most {
		var next []string
		for _, text := range last {
			for _, c := range alphabet {
				next = append(next, text+string(c))
			}
		}
		texts, last = append(texts, next...), next
	}
	return texts
}

func FuzzScannerAgrees(f *testing.F) {
	for _, text := range agreeing {
		f.Add([]byte(text))
	}
	f.Fuzz(compareTokens)
}

func compareTokens(t *testing.T, data []byte) {
	t.Helper()
	s := jsonscan.NewUnique(data)
	got, err := scanTokens(&s, nil)
	if err == nil {
		err = s.End()
	}
	if err != nil && (strings.Contains(err.Error(), "nest more than") || strings.Contains(err.Error(), "must not contain NUL")) {
		return // two limits that the other parser does not have
	}
	want, otherErr := otherTokens(data)
	switch {
	case (err == nil) != (otherErr == nil):
		t.Errorf("%q: here: %v; jsontext: %v", data, err, otherErr)
	case err == nil && !slices.Equal(got, want):
		t.Errorf("%q: tokens\n%+v\njsontext:\n%+v", data, got, want)
	case err == nil && jsonscan.KindOf(data) == jsonscan.Object:
		compareMembers(t, data)
	}
}

func scanTokens(s *jsonscan.Scanner, tokens []scanned) ([]scanned, error) {
	add := func(text string) { tokens = append(tokens, scanned{s.Offset(), text}) }
	switch s.Kind() {
	case jsonscan.Object:
		err := s.EnterObject()
		for first := true; err == nil; first = false {
			if first {
				add("{")
			}
			var key []byte
			var ok bool
			if key, ok, err = s.Member(first); err != nil {
				break
			}
			if !ok {
				add("}")
				break
			}
			tokens = append(tokens, scanned{s.KeyOffset() + len(key), `"` + jsonscan.Unquote(key)})
			tokens, err = scanTokens(s, tokens)
		}
		return tokens, err
	case jsonscan.Array:
		err := s.EnterArray()
		for first := true; err == nil; first = false {
			if first {
				add("[")
			}
			var ok bool
			if ok, err = s.Element(first); err != nil {
				break
			}
			if !ok {
				add("]")
				break
			}
			tokens, err = scanTokens(s, tokens)
		}
		return tokens, err
	case jsonscan.String:
		raw, err := s.String()
		if err == nil {
			add(`"` + jsonscan.Unquote(raw))
		}
		return tokens, err
	default:
		raw, err := s.Value()
		add(string(raw))
		return tokens, err
	}
}

func otherTokens(data []byte) (tokens []scanned, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(data), halfSurrogates(data))
	for ended := false; ; ended = d.StackDepth() == 0 {
		token, err := d.ReadToken()
		switch {
		case err == io.EOF && ended:
			return tokens, nil
		case err != nil:
			return nil, err
		case ended:
			return nil, errors.New("a second value")
		}
		text := token.String()
		if token.Kind() == '"' {
			text = `"` + text
		}
		tokens = append(tokens, scanned{int(d.InputOffset()), text})
	}
}

// compareMembers compares the members of the outermost object.
func compareMembers(t *testing.T, data []byte) {
	t.Helper()
	members, err := jsonscan.ReadObject(data)
	if err != nil {
		t.Errorf("%q: %v", data, err)
		return
	}
	d := jsontext.NewDecoder(bytes.NewReader(data), halfSurrogates(data))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for member := range members.All() {
		name, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil || text != member.Name() || !bytes.Equal(value, member.Value) {
			t.Errorf("%q: member %q is %q, jsontext: %q, %q, %v", data, member.Name(), member.Value, text, value, err)
		}
		if found, err := jsonscan.Find(data, text); err != nil || !bytes.Equal(found, member.Value) {
			t.Errorf("%q: finds %q at %q: %v", data, found, text, err)
		}
	}
}

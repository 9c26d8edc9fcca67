package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

var surrogateEscape = regexp.MustCompile(`(?i)\\uD[89A-F]`)

// Two other parsers judge the same text: one as strict as this one, and one
// that lets broken strings pass.
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
		if strict := jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true)); accepted != strict {
			t.Errorf("jsontext accepts: %v; here: %v", strict, err)
		}
		switch lenient := json.Valid(data); {
		case accepted && !lenient:
			t.Error("encoding/json refuses what was accepted")
		case lenient && !accepted && utf8.Valid(data) && !surrogateEscape.Match(data):
			t.Errorf("encoding/json accepts what was refused: %v", err)
		}
		if !accepted {
			return
		}
		checkUnique(t, data)
		line := jsonscan.AppendLine(nil, data)
		if bytes.ContainsAny(line, "\n\r") || jsonscan.Valid(line) != nil {
			t.Errorf("as a line: %q", line)
		}
		if walked := walkAll(data); walked != nil {
			t.Errorf("walked: %v", walked)
		}
	})
}

// checkUnique has another parser look for names that come twice, in a text that is
// valid but for them.
func checkUnique(t *testing.T, data []byte) {
	whole, walker := jsonscan.NewUnique(data), jsonscan.NewUnique(data)
	_, err := whole.Value()
	if walked := walkValue(&walker); fmt.Sprint(walked) != fmt.Sprint(err) {
		t.Errorf("scanned: %v; walked: %v", err, walked)
	}
	if err != nil && strings.Contains(err.Error(), "NUL") {
		return // jsontext takes it
	}
	if unique := jsontext.Value(data).IsValid(); unique != (err == nil) {
		t.Errorf("jsontext says unique: %v; here: %v", unique, err)
	}
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

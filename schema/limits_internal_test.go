package schema

import (
	"fmt"
	"strings"
	"testing"
)

// Texts of a peer are shortened in messages when they are longer than a limit, and not before.
func TestShortenedTexts(t *testing.T) {
	text := func(n int) string { return strings.Repeat("a", n) }
	for name, test := range map[string]struct{ got, want string }{
		"a value at the limit":     {cut(text(64)), text(64)},
		"a value beyond the limit": {cut(text(65)), text(64) + "…"},
		"in a character":           {cutAt("aé", 2), "a…"},
		"after a character":        {cutAt("aéa", 3), "aé…"},
		"a pointer at the limit":   {placed(text(256)), "at \"" + text(256) + "\": "},
		"a pointer beyond it":      {placed(text(257)), "at \"" + text(256) + "…\": "},
		"a path at the limit":      {pointerOf("", text(4095)), "/" + text(4095)},
		"a path beyond it":         {pointerOf("", text(4096)), "/" + text(4095) + "…"},
		"a continued path":         {pointerOf(text(4094), "b"), text(4094) + "/b"},
		"a continued path beyond":  {pointerOf(text(4095), "b", "c"), text(4095) + "/…"},
		"names at the limit":       {Violation{Keyword: "additionalProperties", Accepted: []string{text(4094), ""}}.String(), "unknown member; accepted: " + text(4094) + ", "},
		"names beyond the limit":   {Violation{Keyword: "additionalProperties", Accepted: []string{text(4096), ""}}.String(), "unknown member; accepted: " + text(4096) + "…"},
		"missing, names at it":     {Violation{Keyword: "required", Expected: "x", Accepted: []string{text(4096)}}.String(), `missing "x" (accepted: ` + text(4096) + ")"},
		"missing, names beyond it": {Violation{Keyword: "required", Expected: "x", Accepted: []string{text(4097)}}.String(), `missing "x" (accepted: ` + text(4096) + "…)"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d bytes that end with %q, want %d with %q", name, len(test.got), test.got[max(0, len(test.got)-9):], len(test.want), test.want[max(0, len(test.want)-9):])
		}
	}
}

// Messages list at most 64 accepted values and names.
func TestListedAlternatives(t *testing.T) {
	for n, want := range map[int]int{63: 63, 64: 64, 65: 64} {
		var values [][]byte
		var decoded []any
		var properties strings.Builder
		for i := range n {
			values = append(values, fmt.Append(nil, i))
			decoded = append(decoded, i)
			fmt.Fprintf(&properties, `,"p%d":{}`, i)
		}
		for _, text := range []string{alternatives(values), decodedAlternatives(decoded...)} {
			last := fmt.Sprintf(" %d", want-1)
			if n > want {
				last += ", …"
			}
			if strings.Count(text, ",") != strings.Count(last, ",")+want-1 || !strings.HasSuffix(text, last) {
				t.Errorf("%d values: %s", n, text)
			}
		}
		for _, also := range []string{"", `,"not":{"type":"null"}`} { // the second one is for the general validator
			v, err := Compile([]byte(`{"additionalProperties":false,"properties":{`+properties.String()[1:]+`}`+also+`}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			invalid, ok := v.Validate(t.Context(), []byte(`{"x":1}`)).(*ValidationError)
			if !ok || len(invalid.Violations) != 1 || len(invalid.Violations[0].Accepted) != want {
				t.Errorf("%d names%s: %v", n, also, invalid)
			}
		}
	}
}

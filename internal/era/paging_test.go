package era

import (
	"encoding/json"
	"testing"
)

func TestCursors(t *testing.T) {
	type page struct{ cursor, entries, end string }
	for name, pages := range map[string][]page{
		"one page":                        {{"", `[1]`, ""}},
		"a null cursor":                   {{`null`, `[1]`, ""}},
		"equal pages of other cursors":    {{`"a"`, `[]`, ""}, {`"b"`, `[]`, ""}, {"", `[]`, ""}},
		"a cursor again":                  {{`"a"`, `[1]`, ""}, {`"b"`, `[2]`, ""}, {`"\u0061"`, `[1]`, RepeatedCursor}},
		"the cursor \"\" has a page":      {{`""`, `[1]`, ""}, {"", `[2]`, ""}},
		"the cursor \"\" twice":           {{`""`, `[1]`, ""}, {`""`, `[2]`, RepeatedCursor}},
		"a page again":                    {{`""`, `[1]`, ""}, {`""`, `[1]`, RepeatedPage}},
		"a page without entries again":    {{`""`, "", ""}, {`""`, "", RepeatedPage}},
		"the last page again":             {{`"a"`, `[1]`, ""}, {`""`, `[2]`, ""}, {`""`, `[2]`, RepeatedPage}},
		"a page again, without a cursor":  {{`""`, `[1]`, ""}, {"", `[1]`, RepeatedPage}},
		"a page again, after another one": {{`""`, `[1]`, ""}, {`"a"`, `[2]`, ""}, {"", `[1]`, ""}},
	} {
		var c Cursors
		for i, p := range pages {
			if got := c.Add(json.RawMessage(p.cursor), json.RawMessage(p.entries)); got != p.end {
				t.Errorf("%s: page %d: %q, want %q", name, i, got, p.end)
			}
		}
	}
}

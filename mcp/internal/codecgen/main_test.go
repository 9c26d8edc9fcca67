package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestGeneratedFileIsUpToDate(t *testing.T) {
	const folder = "../.."
	want, err := generate(folder)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, output))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("mcp/%s is out of date: run go generate ./mcp", output)
	}
}

// generated returns the file for the source of a package.
func generated(t *testing.T, source string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "types.go"), []byte("package mcp\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := generate(folder)
	return string(text), err
}

func TestStatements(t *testing.T) {
	for _, test := range []struct{ field, want string }{
		{"X string `json:\"x\"`", `w.string("x", v.X)`},
		{"X Name `json:\"x,omitzero\"`", `w.optionalString("x", string(v.X))`},
		{"X *string `json:\"x\"`", "if v.X != nil {\nw.string(\"x\", *v.X)\n} else {\nw.null(\"x\")\n}"},
		{"X *int `json:\"x,omitzero\"`", "if v.X != nil {\nw.integer(\"x\", int64(*v.X))\n}"},
		{"X bool `json:\"x\"`", `w.bool("x", v.X)`},
		{"X bool `json:\"x,omitzero\"`", `w.flag("x", v.X)`},
		{"X json.RawMessage `json:\"x\"`", "w.rawOr(\"x\", v.X, `null`)"},
		{"X json.RawMessage `json:\"x\" nil:\"{}\"`", "w.rawOr(\"x\", v.X, `{}`)"},
		{"X json.RawMessage `json:\"x,omitzero\"`", `w.optionalRaw("x", v.X)`},
		{"X []Name `json:\"x\"`", `writeStrings(w, "x", v.X)`},
		{"X []Nested `json:\"x,omitzero\"`", "if v.X != nil {\nwriteObjects(w, \"x\", v.X, (*Nested).appendJSON)\n}"},
		{"X []Shown `json:\"x\"`", `writeList(w, "x", v.X)`},
		{"X Nested `json:\"x\"`", `w.member("x", v.X.appendJSON)`},
		{"X *Same `json:\"x,omitzero\"`", "if v.X != nil {\nw.member(\"x\", v.X.appendJSON)\n}"},
		{"X *OtherResult `json:\"x,omitzero\"`", "if v.X != nil {\nw.member(\"x\", v.X.AppendJSON)\n}"},
		{"Mixin", "v.Mixin.appendMembers(w)"},
		{"Mixin", `w.string("m", m.M)`},
	} {
		text, err := generated(t, "type Value struct {\n"+test.field+"\nExtra Extra `json:\",embed\"`\n}\n"+
			"type Name string\ntype Shown interface{ shown() }\ntype Mixin struct{ M string `json:\"m\"` }\n"+
			"type Nested struct { Extra Extra `json:\",embed\"` }\ntype Same = Nested\n"+
			"type OtherResult struct { Extra Extra `json:\",embed\"` }\n")
		if err != nil {
			t.Errorf("%s: %v", test.field, err)
			continue
		}
		if flat := strings.ReplaceAll(text, "\t", ""); !strings.Contains(flat, "\n"+test.want+"\n") {
			t.Errorf("%s: want %s in\n%s", test.field, test.want, text)
		}
	}
}

func TestMembersWithoutARule(t *testing.T) {
	for _, field := range []string{
		"X string", "X complex128 `json:\"x\"`", "X float64 `json:\"x,omitzero\"`", "X []bool `json:\"x\"`",
		"X map[string]int `json:\"x,omitzero\"`", "X map[string]string `json:\"x\"`", "X *bool `json:\"x,omitempty\"`",
	} {
		_, err := generated(t, "type Value struct {\n"+field+"\nExtra Extra `json:\",embed\"`\n}\n")
		if err == nil || !strings.Contains(err.Error(), "Value: ") || !strings.Contains(err.Error(), "member X") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestMethodsByHandAreKept(t *testing.T) {
	text, err := generated(t, "//codec:type kind\ntype Value struct{ Extra Extra `json:\",embed\"` }\n"+
		"func (*Value) UnmarshalJSON([]byte) error { return nil }\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"appendJSON", "MarshalJSON", "w.string(\"type\", kind)"} {
		if !strings.Contains(text, method) {
			t.Errorf("no %s in\n%s", method, text)
		}
	}
	if strings.Contains(text, "UnmarshalJSON(") {
		t.Errorf("a method is generated that is written by hand:\n%s", text)
	}
}

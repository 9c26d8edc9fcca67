package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/workspace"
)

func TestLines(t *testing.T) {
	w := openWorkspace(t)
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		text         string
		first, limit int
		want         string
		more         bool
		wrong        string
	}{
		{"", 1, 10, "", false, ""},
		{"one", 1, 10, "1 one", false, ""},
		{"one\ntwo\r\nthree\n", 1, 10, "1 one|2 two|3 three", false, ""},
		{"one\ntwo\nthree\n", 2, 1, "2 two", true, ""},
		{"one\ntwo\nthree\n", 3, 1, "3 three", false, ""},
		{"one\ntwo\n", 3, 1, "", false, "has 2 lines"},
		{"\n\n", 1, 10, "1 |2 ", false, ""},
		{long + "\nnext", 1, 10, "1 " + long[:2000] + "…|2 next", false, ""},
		{"\x00\x01", 1, 10, "", false, "binary"},
		{"\xff\xfe latin", 1, 10, "", false, "binary"},
		{strings.Repeat("ü", 4095) + "end", 1, 1, "1 " + strings.Repeat("ü", 2000/2) + "…", false, ""}, // cut in a character
		{strings.Repeat(long+"\n", 200), 1, 1000, "", true, ""},
	} {
		if _, err := w.WriteFile("a.txt", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		lines, more, err := w.Lines(t.Context(), "a.txt", c.first, c.limit)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%.40q: %v", c.text, err)
			}
			continue
		}
		var got []string
		for _, line := range lines {
			got = append(got, fmt.Sprintf("%d %s", line.Number, line.Text))
		}
		if joined := strings.Join(got, "|"); err != nil || more != c.more || c.want != "" && joined != c.want || len(joined) > 300_000 {
			t.Errorf("%.40q: %.100q, more %t, %v", c.text, joined, more, err)
		}
	}
}

// Only the first 64 MiB of a large file are read.
func TestLinesOfALargeFile(t *testing.T) {
	w := openWorkspace(t)
	name := filepath.Join(w.Dir(), "a.txt")
	if err := os.WriteFile(name, []byte(strings.Repeat("text\n", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(strings.Repeat("\nmore text", 5000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if lines, more, err := w.Lines(t.Context(), "a.txt", 1, 10); err != nil || len(lines) != 10 || !more {
		t.Errorf("%d lines, %t %v", len(lines), more, err)
	}
	if _, _, err := w.Lines(t.Context(), "a.txt", 5000, 10); !errors.Is(err, workspace.ErrTooLarge) {
		t.Error(err)
	}
}

func TestFindAndGrep(t *testing.T) {
	w := openWorkspace(t)
	for i, name := range []string{"src/main.go", "src/deep/er/x.go", "src/deep/y_test.go", "README.md", ".git/x.go", "src/bin.go"} {
		text := "package main\n// Find me\n"
		if name == "src/bin.go" {
			text = "\x00Find me"
		}
		full := filepath.Join(w.Dir(), name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(int64(1_000_000-i), 0) // the first is the newest
		if err := os.Chtimes(full, when, when); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ dir, pattern, want string }{
		{"", "*.go", "src/main.go src/deep/er/x.go src/deep/y_test.go src/bin.go"},
		{"src", "*.go", "src/main.go src/deep/er/x.go src/deep/y_test.go src/bin.go"},
		{"", "src/*.go", "src/main.go src/bin.go"},
		{"", "src/**/*.go", "src/main.go src/deep/er/x.go src/deep/y_test.go src/bin.go"},
		{"src", "deep/**", "src/deep/er/x.go src/deep/y_test.go"},
		{"", "?EADME.*", "README.md"},
		{"", "[a-z].go", "src/deep/er/x.go"},
		{"", "{README,x}.{md,go}", "src/deep/er/x.go README.md"},
		{"", "src/deep/**/{x,y_test}.go", "src/deep/er/x.go src/deep/y_test.go"},
		{"", "s**/main.go", "src/main.go"},
		{"", "src**/x.go", ""},
		{"src/main.go", "", "src/main.go"},
		{".", "./src/main.go", "src/main.go"},
	} {
		files, complete, err := w.Find(t.Context(), c.dir, c.pattern)
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		if err != nil || !complete || strings.Join(names, " ") != c.want {
			t.Errorf("%q in %q: %q %t %v", c.pattern, c.dir, names, complete, err)
		}
	}
	for _, c := range []struct {
		dir, pattern, expression string
		most                     int
		want                     string
	}{
		{"", "*.go", "Find.*e$", 10, "src/deep/er/x.go:2 src/deep/y_test.go:2 src/main.go:2"},
		{"", "*.go", "Find", 2, "src/deep/er/x.go:2 src/deep/y_test.go:2 …"},
		{"README.md", "", "package", 10, "README.md:1"},
		{"", "", "^--pre=touch", 10, ""},
		{"", "", "hunter2", 10, ""}, // behind links
	} {
		matches, complete, err := w.Grep(t.Context(), c.dir, c.pattern, regexp.MustCompile(c.expression), c.most)
		var got []string
		for _, m := range matches {
			got = append(got, fmt.Sprintf("%s:%d", m.Name, m.Number))
		}
		if !complete {
			got = append(got, "…")
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q in %q: %q %v", c.expression, c.dir, got, err)
		}
	}
	if _, _, err := w.Find(t.Context(), "..", "*"); !errors.Is(err, workspace.ErrOutside) {
		t.Error(err)
	}
	for _, pattern := range []string{strings.Repeat("*", 5000), "\xff*", "[a", "{a,b", strings.Repeat("{a,b}", 5)} {
		if _, _, err := w.Find(t.Context(), "", pattern); !errors.Is(err, workspace.ErrPattern) {
			t.Errorf("%.10q: %v", pattern, err)
		}
		if _, _, err := w.Grep(t.Context(), "", pattern, regexp.MustCompile(""), 10); !errors.Is(err, workspace.ErrPattern) {
			t.Errorf("%.10q: %v", pattern, err)
		}
	}
}

// Grep reports lines that it has not searched completely.
func TestGrepLongLines(t *testing.T) {
	for _, c := range []struct {
		text, want string
		complete   bool
	}{
		{strings.Repeat("x", 3000) + "needle\n", strings.Repeat("x", 2000) + "…", true},
		{strings.Repeat("x", 256<<10-6) + "needle\r\n", strings.Repeat("x", 2000) + "…", true},
		{strings.Repeat("x", 256<<10) + "needle\n", "", false},
		{"needle" + strings.Repeat("x", 256<<10), "needle" + strings.Repeat("x", 2000-6) + "…", false},
		{strings.Repeat("x\n", 10<<20/2) + "needle", "", false},
	} {
		w := openWorkspace(t)
		if _, err := w.WriteFile("a.txt", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		matches, complete, err := w.Grep(t.Context(), "a.txt", "", regexp.MustCompile("needle"), 10)
		got := ""
		for _, m := range matches {
			got += m.Text
		}
		if err != nil || complete != c.complete || got != c.want {
			t.Errorf("%d bytes: %d found, complete %t, %v", len(c.text), len(matches), complete, err)
		}
	}
}

// Searches leave out protected files, also if they start in a protected directory.
func TestSearchBelowProtected(t *testing.T) {
	w := openWorkspace(t)
	if err := os.MkdirAll(filepath.Join(w.Dir(), ".git/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir(), ".git/sub/config"), []byte("[core]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".git", ".git/config", ".git/sub", ".GIT/sub", ".git/sub/config"} {
		files, _, _ := w.Find(t.Context(), dir, "*")
		matches, _, _ := w.Grep(t.Context(), dir, "", regexp.MustCompile("core"), 10)
		if len(files)+len(matches) != 0 {
			t.Errorf("in %s: %v %v", dir, files, matches)
		}
	}
}

func TestReplace(t *testing.T) {
	w := openWorkspace(t)
	type replacements = []workspace.Replacement
	for _, c := range []struct {
		with  replacements
		want  string // "a b a" otherwise
		wrong string
	}{
		{replacements{{Old: "b", New: "c"}}, "a c a", ""},
		{replacements{{Old: "a", New: "c"}}, "", "occurs 2 times"},
		{replacements{{Old: "a", New: "c", All: true}}, "c b c", ""},
		{replacements{{Old: "b", New: "x"}, {Old: "x", New: "y"}}, "a y a", ""},
		{replacements{{Old: "b", New: "x"}, {Old: "z", New: "y"}}, "", "replacement 2: the old text is not in"},
		{replacements{{Old: "b", New: "b"}}, "", "must differ"},
		{replacements{{Old: "", New: "b"}}, "", "must differ"},
		{replacements{{Old: "b", New: strings.Repeat("x", 10<<20)}}, "", "too large"},
	} {
		if _, err := w.WriteFile("a.txt", []byte("a b a")); err != nil {
			t.Fatal(err)
		}
		_, err := w.Replace("a.txt", c.with...)
		data, _ := w.ReadFile("a.txt", 0)
		if c.wrong == "" && (err != nil || string(data) != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || string(data) != "a b a") {
			t.Errorf("%.80v: %q %v", c.with, data, err)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, seed := range []string{"*", "**/*.go", "[a", "\xff*", "(", "?", "./", "{1,2}"} {
		f.Add(seed)
	}
	w, err := workspace.Open(f.TempDir(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if _, _, err := w.Find(t.Context(), "", pattern); err != nil && !errors.Is(err, workspace.ErrPattern) {
			t.Errorf("%q: %v", pattern, err)
		}
	})
}

func FuzzIsText(f *testing.F) {
	for _, seed := range []string{"", "text", "\x00", "ü", "\xc3", "\x01\x02"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		if workspace.IsText(head) && slices.Contains(head, 0) {
			t.Errorf("%q", head)
		}
	})
}

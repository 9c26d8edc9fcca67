package servertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
)

// Golden compares everything that a server offers to the client with the file at path, and fails
// the test if they differ: the instructions, tools, prompts, resources and templates, as indented
// JSON. It shows which names, schemas and descriptions a change of the code changes for models. See
// the package documentation about writing the file.
func Golden(tb testing.TB, session *client.Session, path string) {
	tb.Helper()
	ctx := tb.Context()
	catalog := struct {
		Instructions string            `json:"instructions,omitempty"`
		Tools        []json.RawMessage `json:"tools,omitempty"`
		Prompts      []json.RawMessage `json:"prompts,omitempty"`
		Resources    []json.RawMessage `json:"resources,omitempty"`
		Templates    []json.RawMessage `json:"resourceTemplates,omitempty"`
	}{
		session.Instructions(),
		list(tb, session.Tools(ctx, nil)), list(tb, session.Prompts(ctx, nil)),
		list(tb, session.Resources(ctx, nil)), list(tb, session.Templates(ctx, nil)),
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(catalog); err != nil {
		tb.Fatalf("servertest: encode the catalog: %v", err)
	}
	compare(tb, path, text.String(), nil)
}

// list returns the definitions of a list as JSON.
func list[T any](tb testing.TB, entries iter.Seq2[*T, error]) (all []json.RawMessage) {
	tb.Helper()
	for entry, err := range entries {
		if err != nil {
			tb.Fatalf("servertest: list the catalog: %v", err)
		}
		definition, err := json.Marshal(entry)
		if err != nil {
			tb.Fatalf("servertest: encode an entry: %v", err)
		}
		all = append(all, definition)
	}
	return all
}

// updateVariable is the environment variable that makes tests write files.
const updateVariable = "SERVERTEST_UPDATE"

// updating reports whether files are written instead of compared.
func updating() bool {
	f := flag.Lookup("update")
	return os.Getenv(updateVariable) == "1" || f != nil && f.Value.String() == "true"
}

// compare compares a text with a file, or writes the file. normalize, which may be nil, removes what
// does not matter; a file that differs only in that is not written again.
func compare(tb testing.TB, path, got string, normalize func(string) (string, error)) {
	tb.Helper()
	if normalize == nil {
		normalize = func(text string) (string, error) { return text, nil }
	}
	file, err := os.ReadFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		tb.Errorf("servertest: %v", err)
		return
	}
	wanted, err := normalize(strings.ReplaceAll(string(file), "\r\n", "\n")) // as a checkout on Windows has them
	if err != nil && !updating() {
		tb.Errorf("servertest: %s: %v", path, err)
		return
	}
	current, err := normalize(got)
	if err != nil {
		tb.Errorf("servertest: %v", err)
		return
	}
	d := diff(wanted, current)
	switch {
	case !missing && d == "":
	case updating():
		if !tb.Failed() {
			write(tb, path, got)
		}
	case missing:
		tb.Errorf("servertest: %s does not exist. To write it, run the test with %s=1", path, updateVariable)
	default:
		tb.Errorf("servertest: %s differs (-file +test). To write it, run the test with %s=1\n%s", path, updateVariable, d)
	}
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // source files, which others may read
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // the same
	}
	if err != nil {
		tb.Errorf("servertest: %v", err)
	}
}

const (
	diffContext = 3   // equal lines around a difference
	maxDiff     = 100 // lines of each text in a difference
	maxDiffLine = 500 // bytes of a line
)

// diff returns the lines from the first difference of two texts to the last, or "".
func diff(want, got string) string {
	if want == got {
		return ""
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var text strings.Builder
	add := func(sign string, lines []string) {
		for i, line := range lines {
			if i == maxDiff {
				text.WriteString(sign + "…\n")
				break
			}
			if len(line) > maxDiffLine {
				line = line[:maxDiffLine] + "…"
			}
			text.WriteString(sign + line + "\n")
		}
	}
	add(" ", a[max(0, begin-diffContext):begin])
	add("-", a[begin:len(a)-end])
	add("+", b[begin:len(b)-end])
	add(" ", a[len(a)-end:min(len(a), len(a)-end+diffContext)])
	return text.String()
}

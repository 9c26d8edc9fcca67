package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxGuideLines is the maximum number of lines of a guide.
const maxGuideLines = 200

// Code in the README and in the guides is a copy of code that is compiled and run.
func TestReadmeCodeIsCompiled(t *testing.T) {
	checkPage(t, "README.md", fileText)
}

func TestGuides(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("docs has no pages: %v", err)
	}
	for _, page := range pages {
		name := path.Join("docs", filepath.Base(page))
		text := checkPage(t, name, fileText)
		if lines := strings.Count(text, "\n"); lines > maxGuideLines {
			t.Errorf("%s has %d lines, at most %d are allowed", name, lines, maxGuideLines)
		}
	}
}

// Each fault of a page is found.
func TestGuideRule(t *testing.T) {
	files := map[string]string{
		"docs/a/a_test.go": "func TestA(t *testing.T) {\n\tt.Run(\"a b\", f)\n\tif x {\n\t\tf()\n\t}\n}\n",
		"docs/b.md":        "",
		"docs/a/mcp.json":  "{}\n",
	}
	for page, want := range map[string]string{
		"<!-- from docs/a/a_test.go -->\n```go\nif x {\n\tf()\n}\n```\n": "",
		"<!-- from docs/a/mcp.json -->\n```json\n{}\n```\n":              "",
		"```sh\ngo test ./...\n```\n":                                    "",
		"[b](b.md#part) [web](https://example.com) [here](#part)\n":      "",
		"[TestA](a/a_test.go)\n":                                         "",
		"[`TestA/a b`](a/a_test.go)\n":                                   "",
		"[`TestA/b`](a/a_test.go)\n":                                     `no subtest "b"`,
		"```go\nf()\n```\n":                                              "no comment names the file",
		"```json\n{}\n```\n":                                             "no comment names the file",
		"<!-- from docs/a/a_test.go -->\n```go\ng()\n```\n":              "is not in docs/a/a_test.go",
		"<!-- from docs/none.go -->\n```go\ng()\n```\n":                  "docs/none.go",
		"[c](c.md)\n":              "c.md",
		"[TestB](a/a_test.go)\n":   "no function TestB",
		"[`TestB`](a/a_test.go)\n": "no function TestB",
		"| a | test |\n|---|---|\n| b | [TestA](a/a_test.go) |\n":           "",
		"| a | proved by |\n|---|---|\n| b | [here](a/a_test.go) |\n":       `no link to a test: | b | [here](a/a_test.go) |`,
		"| a | test |\n|---|---|\n| b | |\n\n| a | b |\n|---|---|\n| c | |": `no link to a test: | b | |`,
	} {
		found := faults("docs/page.md", page, func(name string) (string, error) {
			text, ok := files[name]
			if !ok {
				return "", fmt.Errorf("%s does not exist", name)
			}
			return text, nil
		})
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
			t.Errorf("%q: found %q, want %q", page, found, want)
		}
	}
}

// checkPage reports the faults of a page and returns its text.
func checkPage(t *testing.T, name string, read func(name string) (string, error)) string {
	t.Helper()
	text, err := read(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "```go") && name == "README.md" {
		t.Error("the README shows no code")
	}
	for _, fault := range faults(name, text, read) {
		t.Errorf("%s: %s", name, fault)
	}
	return text
}

// fileText returns the text of a file of the module, "" for a folder.
func fileText(name string) (string, error) {
	name = filepath.Join(root, filepath.FromSlash(name))
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		return "", err
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

var (
	// block matches a fenced block with the comment that names its source file.
	block = regexp.MustCompile("(?ms)^(?:<!-- from ([^ \n]+) -->\n)?```(\\w*)\n(.*?)^```$")
	// link matches a link and its text.
	link = regexp.MustCompile(`\[([^\[\]]*)\]\(([^() #]*)(?:#[^() ]*)?\)`)
	// testedRows matches the rows of a table whose last column is for tests.
	testedRows = regexp.MustCompile(`(?m)^\|.*\| *(?:test|proved by) *\|\n\|[-|]*\|\n((?:\|.*\n)*)`)
	// testName matches the text of a link to a test or a subtest.
	testName = regexp.MustCompile("^`?((?:Test|Example|Fuzz)[A-Z_]\\w*)(?:/([\\w ]+))?`?$")
)

// faults returns the faults of a page: Go and JSON code without a comment that names its source
// file, code that differs from its source file, links to files or tests that do not exist, and
// rows without a link to a test where the column for it is the last.
func faults(name, text string, read func(name string) (string, error)) []string {
	var found []string
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		from, language, code := match[1], match[2], match[3]
		if from == "" {
			if language == "go" || language == "json" {
				found = append(found, "no comment names the file of this code:\n"+code)
			}
			continue
		}
		source, err := read(path.Clean(from))
		if err != nil {
			found = append(found, err.Error())
		} else if !strings.Contains("\n"+unindented(source), "\n"+unindented(code)) {
			found = append(found, "this code is not in "+from+":\n"+code)
		}
	}
	text = block.ReplaceAllString(text, "")
	for _, match := range testedRows.FindAllStringSubmatch(text, -1) {
		for row := range strings.Lines(match[1]) {
			links := link.FindAllStringSubmatch(row, -1)
			if !slices.ContainsFunc(links, func(l []string) bool { return testName.MatchString(l[1]) }) {
				found = append(found, "no link to a test: "+row)
			}
		}
	}
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		label, target := match[1], match[2]
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		linked, err := read(path.Join(path.Dir(name), target))
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		test := testName.FindStringSubmatch(label)
		if test == nil {
			continue
		}
		if !strings.Contains(linked, "func "+test[1]+"(") && !strings.Contains(linked, ") "+test[1]+"(t *testing.T)") { // or a method of a suite
			found = append(found, fmt.Sprintf("%s has no function %s", target, test[1]))
		}
		if !strings.Contains(linked, `"`+test[2]+`"`) && test[2] != "" {
			found = append(found, fmt.Sprintf("%s has no subtest %q", target, test[2]))
		}
	}
	return found
}

// unindented removes indentation, which may differ between file and page, and empty lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

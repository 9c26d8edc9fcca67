package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestNoInitFunctions(t *testing.T)  { enforce(t, declaresInit, nil) }
func TestNoUnfinishedWork(t *testing.T) { enforce(t, hasUnfinishedWork, nil) }

// A sleep is too short on a slow machine or too long on a fast one. Wait for an event, or use
// testing/synctest.
func TestNothingSleeps(t *testing.T) {
	enforce(t, sleeps, exceptions{
		"internal/test/leaktest/leaktest.go": "the end of a goroutine is not an event that can be awaited",
	})
}

func TestDisciplineRules(t *testing.T) {
	planted(t, "init.go", "server/planted.go", declaresInit)
	planted(t, "unfinished.go", "server/planted.go", hasUnfinishedWork)
	planted(t, "sleep.go", "server/planted_test.go", sleeps)
	for _, check := range []rule{declaresInit, hasUnfinishedWork, sleeps} {
		planted(t, "clean.go", "server/planted.go", check)
	}
}

func declaresInit(file *source) []finding {
	var found []finding
	for _, decl := range file.syntax.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, file.at(f.Pos(), "an init function: importing a package must not do anything"))
		}
	}
	return found
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

func hasUnfinishedWork(file *source) []finding {
	var found []finding
	for _, group := range file.syntax.Comments {
		for _, comment := range group.List {
			if mark := unfinished.FindString(comment.Text); mark != "" {
				found = append(found, file.at(comment.Pos(), "%s: finish it, or open an issue", mark))
			}
		}
	}
	return found
}

func sleeps(file *source) []finding {
	var found []finding
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		if call, ok := node.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
			if x, ok := call.X.(*ast.Ident); ok && x.Name == "time" {
				found = append(found, file.at(node.Pos(), "time.Sleep does not wait for an event"))
			}
		}
		return true
	})
	return found
}

// maxFileLines is the maximum number of lines of a file that is not a test.
const maxFileLines = 900

func TestFilesAreShort(t *testing.T) { enforce(t, longerThan(maxFileLines), nil) }

func TestLengthRule(t *testing.T) {
	file := &source{path: "server/long.go", lines: 501}
	if len(longerThan(500)(file)) != 1 || len(longerThan(501)(file)) != 0 {
		t.Error("a file of 501 lines must be refused at 500 and allowed at 501")
	}
}

func longerThan(limit int) rule {
	return func(file *source) []finding {
		if file.isTest() || file.lines <= limit {
			return nil
		}
		return []finding{{file.path, limit + 1, "the file is too long: split it by topic"}}
	}
}

// refusedPhrase matches phrases that are hard to understand for non-native speakers of
// English. CONTRIBUTING.md describes the language of comments.
var refusedPhrase = regexp.MustCompile(`(?i)\b(stands around|stands beside|stands before|who has|what is there|is told|are told|` +
	`is asked about|anew|comes of it|for want of|in vain|lest|such as makes)\b`)

// quotation matches examples and quoted messages, which may contain any phrase.
var quotation = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|“[^”]*”")

func TestPlainEnglish(t *testing.T) {
	enforce(t, mannered, nil)
	planted(t, "mannered.go", "server/planted.go", mannered)
	planted(t, "clean.go", "server/planted.go", mannered)
}

func TestPlainEnglishInGuides(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("docs has no pages: %v", err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"} {
		pages = append(pages, filepath.Join(root, filepath.FromSlash(name)))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if phrase := refusedIn(line); phrase != "" {
				t.Errorf("%s:%d: %q: write a plainer phrase", path.Base(page), i+1, phrase)
			}
		}
	}
}

// refusedIn returns the first refused phrase outside of quotations, or "".
func refusedIn(text string) string {
	return refusedPhrase.FindString(quotation.ReplaceAllString(text, ""))
}

func mannered(file *source) []finding {
	var found []finding
	for _, group := range file.syntax.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		if phrase := refusedIn(text); phrase != "" {
			found = append(found, file.at(group.Pos(), "%q: write a plainer phrase", phrase))
		}
	}
	return found
}

// Only the environment variable DOVETAIL_SUITES names the folder of external test suites, so
// that a clone works at any path. .ci/run sets the variable.
var suitesFolder = regexp.MustCompile(`(^|[^\w])` + "shared" + `/`)

func TestSuitesFolderIsNotNamed(t *testing.T) {
	err := walk(func(name string) error {
		if name == ".ci/run" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if suitesFolder.MatchString(line) {
				t.Errorf("%s:%d: names a folder of test suites: %s", name, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSuitesFolderPattern(t *testing.T) {
	for line, found := range map[string]bool{
		"../" + "shared" + "/data":      true,
		`"` + "shared" + `/x"`:          true,
		"a state shared by two servers": false,
		"un" + "shared" + "/data":       false,
	} {
		if suitesFolder.MatchString(line) != found {
			t.Errorf("%q: found is %t, want %t", line, !found, found)
		}
	}
}

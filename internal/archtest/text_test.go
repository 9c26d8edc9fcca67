package archtest

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Outside test suites are found through the environment variable DOVETAIL_SUITES
// alone, so that a clone works wherever it lies. Only .ci/run knows a folder.
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

// codeSource introduces a Go block of the README: the file that it was copied from.
var codeSource = regexp.MustCompile("(?s)(<!-- from ([^ ]+) -->\n)?```go\n(.*?)```")

// Code in the README is a copy of code that is compiled and run.
func TestReadmeCodeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := codeSource.FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Error("the README shows no code")
	}
	for _, block := range blocks {
		name, code := block[2], block[3]
		if name == "" {
			t.Errorf("no comment says where this code was copied from:\n%s", code)
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path.Clean(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(unindented(string(text)), unindented(code)) {
			t.Errorf("this code does not stand in %s:\n%s", name, code)
		}
	}
}

// unindented drops indentation and empty lines: an example may sit deeper in its
// file than on the page.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

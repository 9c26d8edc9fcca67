package archtest

import (
	"bytes"
	"os"
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

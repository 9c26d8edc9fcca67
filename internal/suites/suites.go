// Package suites finds the test suites of others, which live outside of this
// module because of their size.
package suites

import (
	"os"
	"path/filepath"
	"testing"
)

// Variable names the environment variable that holds the folder of the suites.
const Variable = "DOVETAIL_SUITES"

// Dir returns the folder of the suite with that name, a path with slashes such
// as "json/test_parsing". ok is false when [Variable] is not set: the test then
// runs a sample of its own. When it is set and the folder is missing, the test
// fails, so that a suite is never skipped by mistake.
func Dir(t testing.TB, name string) (dir string, ok bool) {
	t.Helper()
	root := os.Getenv(Variable)
	if root == "" {
		return "", false
	}
	dir = filepath.Join(root, filepath.FromSlash(name))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatalf("%s is set, but the suite %q is not there: %v", Variable, name, err)
	}
	if !info.IsDir() {
		t.Fatalf("%s is set, but the suite %q is not a folder", Variable, name)
	}
	return dir, true
}

package testsuites

import (
	"os"
	"path/filepath"
	"testing"
)

// Variable is the environment variable with the folder of the suites.
const Variable = "DOVETAIL_SUITES"

// Dir returns the folder of a suite. The name is a path with slashes, such as
// "json/test_parsing". ok is false if [Variable] is not set; the test then uses its own
// sample. If it is set and the folder is missing, the test fails.
func Dir(t testing.TB, name string) (dir string, ok bool) {
	t.Helper()
	root := os.Getenv(Variable)
	if root == "" {
		return "", false
	}
	dir = filepath.Join(root, filepath.FromSlash(name))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatalf("%s is set, but the suite %q is missing: %v", Variable, name, err)
	}
	if !info.IsDir() {
		t.Fatalf("%s is set, but the suite %q is not a folder", Variable, name)
	}
	return dir, true
}

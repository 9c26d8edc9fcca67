package testsuites_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestDir(t *testing.T) {
	root := t.TempDir()
	want := filepath.Join(root, "json", "parsing")
	if err := os.MkdirAll(want, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(testsuites.Variable, root)
	if dir, ok := testsuites.Dir(t, "json/parsing"); !ok || dir != want {
		t.Errorf("Dir = %q, %v, want %q, true", dir, ok, want)
	}
}

func TestDirUnset(t *testing.T) {
	t.Setenv(testsuites.Variable, "")
	if dir, ok := testsuites.Dir(t, "json/parsing"); ok || dir != "" {
		t.Errorf("Dir = %q, %v, want nothing", dir, ok)
	}
}

func TestDirMissing(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(testsuites.Variable, root)
	for _, name := range []string{"absent", "file"} {
		rec := &recorder{TB: t}
		func() {
			defer func() { recover() }()
			testsuites.Dir(rec, name)
		}()
		if rec.failure == "" {
			t.Errorf("a suite %q was accepted", name)
		}
	}
}

// A recorder is a test that is allowed to fail.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(r.failure)
}

package sharedfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, step := range []struct {
		name, data string
		perm, want fs.FileMode
	}{
		{"new with permissions", "one", 0o640, 0o640},
		{"keeps permissions", "two", 0, 0o640},
		{"new permissions", "", 0o600, 0o600},
		{"read only", "four", 0o444, 0o444},
		{"stays read only", "five", 0, 0o444},
	} {
		if err := sharedfile.Write(path, []byte(step.data), step.perm); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != step.data {
			t.Errorf("%s: content %q, %v", step.name, data, err)
		}
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != step.want {
			t.Errorf("%s: mode %v, want %v, %v", step.name, info.Mode(), step.want, err)
		}
	}
	wantOnly(t, filepath.Dir(path), "file")
}

func TestReadIsLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := sharedfile.Read(path, 5); err != nil || string(data) != "12345" {
		t.Errorf("got %q, %v", data, err)
	}
	if data, err := sharedfile.Read(path, 4); err == nil || len(data) > 0 {
		t.Errorf("a longer file is %q, %v", data, err)
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	if err := sharedfile.Write(filepath.Join(dir, "missing", "file"), nil, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sharedfile.Write(filepath.Join(dir, "folder"), []byte("x"), 0); err == nil {
		t.Error("a directory was replaced")
	}
	wantOnly(t, dir, "folder")
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := sharedfile.SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := sharedfile.SyncDir(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// wantOnly fails the test if dir holds anything except name.
func wantOnly(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

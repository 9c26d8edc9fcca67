package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/server/workspace"
)

// openWorkspace opens a workspace with some files, next to files that must not be reached.
func openWorkspace(t *testing.T) *workspace.Workspace {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, "work")
	for name, text := range map[string]string{
		"work/a.txt": "a", "work/sub/b.txt": "b", "work/.git/config": "[core]",
		"secret": "hunter2", "work-evil/x": "hunter2",
	} {
		name = filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"inside": "a.txt", "insidedir": "sub", "outside": "../secret", "absolute": filepath.Join(parent, "secret"),
		"outsidedir": "..", "loop": "loop", "passwd": "/etc/passwd", "gitlink": ".git",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip(err) // where links need a privilege
		}
	}
	w, err := workspace.Open(dir, &workspace.Options{Protected: []string{".git"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestRead(t *testing.T) {
	w := openWorkspace(t)
	for path, want := range map[string]any{
		"a.txt": "a", "./a.txt": "a", "sub/../a.txt": "a", "sub//b.txt": "b", "inside": "a", "insidedir/b.txt": "b",
		w.Dir() + "/a.txt":         "a",
		"":                         workspace.ErrNotRegular,
		"sub":                      workspace.ErrNotRegular,
		"nothing":                  fs.ErrNotExist,
		"a.txt/x":                  nil, // some error
		"..":                       workspace.ErrOutside,
		"../secret":                workspace.ErrOutside,
		"sub/../../secret":         workspace.ErrOutside,
		"../work-evil/x":           workspace.ErrOutside,
		w.Dir() + "-evil/x":        workspace.ErrOutside,
		w.Dir() + "/../secret":     workspace.ErrOutside,
		"/etc/passwd":              workspace.ErrOutside,
		"/":                        workspace.ErrOutside,
		"outside":                  workspace.ErrOutside,
		"absolute":                 workspace.ErrOutside,
		"passwd":                   workspace.ErrOutside,
		"outsidedir/secret":        workspace.ErrOutside,
		"outsidedir/work/a.txt":    workspace.ErrOutside,
		"loop":                     nil,
		"a.txt\x00":                fs.ErrInvalid,
		strings.Repeat("x/", 4096): fs.ErrInvalid,
		".git/config":              "[core]", // may be read
		"file://" + w.Dir() + "/a": fs.ErrNotExist,
		"~/.ssh/id_rsa":            fs.ErrNotExist,
		"$HOME/.profile":           fs.ErrNotExist,
		`..\..\secret`:             nil,
		"%2e%2e/secret":            fs.ErrNotExist,
	} {
		data, err := w.ReadFile(path, 0)
		switch want := want.(type) {
		case string:
			if err != nil || string(data) != want {
				t.Errorf("%q: %q, %v", path, data, err)
			}
		case error:
			if !errors.Is(err, want) {
				t.Errorf("%.80q: %v, want %v", path, err, want)
			}
		default:
			if err == nil {
				t.Errorf("%q: is read", path)
			}
		}
		var typed *workspace.Error
		if err != nil && (!errors.As(err, &typed) || typed.Path != path) {
			t.Errorf("%.80q: %T %v", path, err, err)
		}
	}
}

func TestWrite(t *testing.T) {
	for path, want := range map[string]error{
		"a.txt": nil, "new.txt": nil, "x/y/z.txt": nil, "sub/b.txt": nil,
		"":                 workspace.ErrRoot,
		".":                workspace.ErrRoot,
		"sub":              workspace.ErrNotRegular,
		"a.txt/x":          workspace.ErrNotDirectory,
		"inside":           workspace.ErrLink,
		"insidedir/b.txt":  workspace.ErrLink,
		"outside":          workspace.ErrLink,
		"outsidedir/x":     workspace.ErrLink,
		"../x":             workspace.ErrOutside,
		"../work-evil/x":   workspace.ErrOutside,
		"/tmp/x":           workspace.ErrOutside,
		".git/config":      workspace.ErrProtected,
		".GIT/config":      workspace.ErrProtected,
		"sub/.git/hooks/x": workspace.ErrProtected,
		".git":             workspace.ErrProtected,
		"gitlink/config":   workspace.ErrLink,
	} {
		w := openWorkspace(t)
		created, err := w.WriteFile(path, []byte("new"))
		if !errors.Is(err, want) || want != nil && err == nil {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
		if want == nil {
			data, err := w.ReadFile(path, 0)
			if err != nil || string(data) != "new" || created == (path == "a.txt" || path == "sub/b.txt") {
				t.Errorf("%q: %q %v, created %t", path, data, err, created)
			}
		}
		checkUntouched(t, w)
	}
}

// checkUntouched checks that the files next to the workspace and the protected files are
// unchanged, and that no temporary file is left.
func checkUntouched(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	parent := filepath.Dir(w.Dir())
	for name, want := range map[string]string{"secret": "hunter2", "work-evil/x": "hunter2", "work/.git/config": "[core]"} {
		if data, err := os.ReadFile(filepath.Join(parent, name)); err != nil || string(data) != want {
			t.Errorf("%s is %q: %v", name, data, err)
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 3 {
		t.Errorf("next to the workspace: %v %v", entries, err)
	}
	_, err := w.Walk(context.Background(), ".", func(name string, _ fs.DirEntry) error {
		if strings.Contains(name, ".new-") {
			t.Errorf("temporary file %s", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A replaced file keeps its permissions.
func TestWriteMode(t *testing.T) {
	w := openWorkspace(t)
	script := filepath.Join(w.Dir(), "a.txt")
	if err := os.Chmod(script, 0o751); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile("a.txt", []byte("#!/bin/sh")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(script); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// A file without write permission is not replaced, and a set-user-ID bit is not kept.
func TestWriteProtectedMode(t *testing.T) {
	w := openWorkspace(t)
	name := filepath.Join(w.Dir(), "a.txt")
	if err := os.Chmod(name, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile("a.txt", []byte("new")); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if _, err := w.Replace("a.txt", workspace.Replacement{Old: "a", New: "b"}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if data, err := w.ReadFile("a.txt", 0); err != nil || string(data) != "a" {
		t.Errorf("%q %v", data, err)
	}
	checkUntouched(t, w)
	if err := os.Chmod(name, 0o755|os.ModeSetgid|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile("a.txt", []byte("new")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestTooLarge(t *testing.T) {
	w := openWorkspace(t)
	if _, err := w.WriteFile("a.txt", make([]byte, 11)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReadFile("a.txt", 11); err != nil {
		t.Error(err)
	}
	_, err := w.ReadFile("a.txt", 10)
	if !errors.Is(err, workspace.ErrTooLarge) || !strings.Contains(err.Error(), "11 bytes") {
		t.Error(err)
	}
	if err := w.Edit("a.txt", 10, nil); !errors.Is(err, workspace.ErrTooLarge) {
		t.Error(err)
	}
}

// Concurrent readers see complete files, and no edit is lost.
func TestEditConcurrently(t *testing.T) {
	w := openWorkspace(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 25 {
				err := w.Edit("a.txt", 0, func(data []byte) ([]byte, error) { return append(data, byte('0'+i)), nil })
				if err != nil {
					t.Error(err)
				}
				if data, err := w.ReadFile("a.txt", 0); err != nil || len(data) == 0 || data[0] != 'a' {
					t.Errorf("%q %v", data, err)
				}
			}
		})
	}
	group.Wait()
	if data, err := w.ReadFile("a.txt", 0); err != nil || len(data) != 1+8*25 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestEditFails(t *testing.T) {
	w := openWorkspace(t)
	wrong := errors.New("wrong")
	if err := w.Edit("a.txt", 0, func([]byte) ([]byte, error) { return nil, wrong }); err != wrong {
		t.Error(err)
	}
	if err := w.Edit("new", 0, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if data, _ := w.ReadFile("a.txt", 0); string(data) != "a" {
		t.Errorf("content %q", data)
	}
	checkUntouched(t, w)
}

func TestRemove(t *testing.T) {
	for path, want := range map[string]error{
		"a.txt": nil, "sub/b.txt": nil, "outside": nil, "gitlink": nil, // links themselves
		".": workspace.ErrRoot, "sub/..": workspace.ErrRoot, "..": workspace.ErrOutside, "nothing": fs.ErrNotExist,
		".git": workspace.ErrProtected, "outsidedir/secret": workspace.ErrLink, "insidedir/b.txt": workspace.ErrLink,
	} {
		w := openWorkspace(t)
		if err := w.Remove(path, true); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
		if _, err := os.Lstat(filepath.Join(w.Dir(), path)); want == nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is still there: %v", path, err)
		}
		checkUntouched(t, w)
	}
	w := openWorkspace(t)
	if err := w.Remove("sub", false); err == nil {
		t.Error("a directory with something in it is removed")
	}
	if err := w.Remove("sub", true); err != nil {
		t.Error(err)
	}
	if _, err := w.WriteFile("deep/er/x", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.Dir(), "deep/.git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.Remove("deep", true); !errors.Is(err, workspace.ErrProtected) {
		t.Error(err)
	}
}

func TestMkdir(t *testing.T) {
	w := openWorkspace(t)
	for path, want := range map[string]error{
		"new/and/deep": nil, "sub": nil, "a.txt": workspace.ErrNotDirectory, "outsidedir": workspace.ErrLink,
		"outsidedir/x": workspace.ErrLink, "../x": workspace.ErrOutside, ".git/x": workspace.ErrProtected, "": workspace.ErrRoot,
	} {
		if err := w.Mkdir(path); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
	checkUntouched(t, w)
}

func TestReadDirAndWalk(t *testing.T) {
	w := openWorkspace(t)
	entries, err := w.ReadDir("insidedir")
	if err != nil || len(entries) != 1 || entries[0].Name() != "b.txt" {
		t.Errorf("%v %v", entries, err)
	}
	for path, want := range map[string]error{
		"a.txt": workspace.ErrNotDirectory, "..": workspace.ErrOutside, "outsidedir": workspace.ErrOutside, "nothing": fs.ErrNotExist,
	} {
		if _, err := w.ReadDir(path); !errors.Is(err, want) {
			t.Errorf("%q: %v", path, err)
		}
		if path == "a.txt" {
			continue
		}
		if _, err := w.Walk(t.Context(), path, nil); !errors.Is(err, want) {
			t.Errorf("walking %q: %v", path, err)
		}
	}
	var names []string
	complete, err := w.Walk(t.Context(), "", func(name string, entry fs.DirEntry) error {
		if name == ".git" {
			return fs.SkipDir
		}
		names = append(names, name)
		return nil
	})
	want := strings.Fields(". a.txt absolute gitlink inside insidedir loop outside outsidedir passwd sub sub/b.txt")
	if err != nil || !complete || !slices.Equal(names, want) {
		t.Errorf("%q, %t %v", names, complete, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	if _, err := w.Walk(ctx, ".", nil); err == nil || err.Error() != "enough" {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	w := openWorkspace(t)
	if names, err := w.Names("a", w.Dir()+"/sub/../b", ""); err != nil || !slices.Equal(names, []string{"a", "b", "."}) {
		t.Errorf("%q %v", names, err)
	}
	if names, err := w.Names("a", "../b"); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("%q %v", names, err)
	}
}

func TestOpenFails(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "nothing"), os.Args[0]} {
		if _, err := workspace.Open(dir, nil); err == nil {
			t.Errorf("%s is opened", dir)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"a", "../a", "/etc", "a/../../b", `..\a`, "a\x00", ".", "", "//", "a/./b", "\xf4"} {
		f.Add(seed)
	}
	w, err := workspace.Open(f.TempDir(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if name, err := w.Name(path); err == nil && (!filepath.IsLocal(name) || !fs.ValidPath(name)) {
			t.Errorf("%q is %q", path, name)
		}
	})
}

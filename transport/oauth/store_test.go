package oauth_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

func newFileStore(t testing.TB, path string, key byte) oauth.LockingStore {
	t.Helper()
	s, err := oauth.NewFileStore(path, bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFileStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	s := newFileStore(t, path, 1)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("there is a file before anything was saved")
	}
	for key, value := range map[string]oauth.Secret{"a": "canary-1", "b": "canary-2"} {
		if err := s.Save(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.ReadFile(path)
	if err := s.Save(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || bytes.Contains(after, []byte("canary")) || bytes.Contains(before[len("dovetail tokens 1\n"):], after[20:52]) {
		t.Errorf("the file is not encrypted anew: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	again := newFileStore(t, path, 1)
	for key, want := range map[string]oauth.Secret{"a": "canary-1", "b": "", "c": ""} {
		if got, err := again.Load(t.Context(), key); got != want || err != nil {
			t.Errorf("%s is %q, %v", key, string(got), err)
		}
	}
	if all, _ := filepath.Glob(path + "*"); len(all) != 2 { // the file and its lock
		t.Errorf("left are %v", all)
	}
}

// A file that was changed or written with another key is not read.
func TestFileStoreThatWasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	s := newFileStore(t, path, 1)
	if err := s.Save(t.Context(), "a", "canary"); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(name string, text []byte, key byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := oauth.NewFileStore(path, bytes.Repeat([]byte{key}, 32))
		if !is[*oauth.StoreError](err) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := s.Load(t.Context(), "a"); err == nil && key == 1 {
			t.Errorf("%s: it is read", name)
		}
		if err := s.Save(t.Context(), "b", "x"); err == nil && key == 1 {
			t.Errorf("%s: it is overwritten", name)
		}
	}
	for i := range good {
		text := bytes.Clone(good)
		text[i] ^= 1
		wrong(fmt.Sprint("byte ", i), text, 1)
	}
	for _, size := range []int{0, 1, 17, 18, 40, 50, 62, len(good) - 1} {
		wrong(fmt.Sprint("the first ", size), good[:size], 1)
	}
	wrong("longer", append(bytes.Clone(good), 0), 1)
	wrong("another key", good, 2)
	if _, err := oauth.NewFileStore(path, make([]byte, 32-1)); err == nil {
		t.Error("a short key is taken")
	}
	if _, err := oauth.NewFileStore(t.TempDir(), make([]byte, 32)); err == nil {
		t.Error("a folder is taken")
	}
}

func TestFileStoreIsSafeForConcurrentUse(t *testing.T) {
	s := newFileStore(t, filepath.Join(t.TempDir(), "tokens"), 1)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			if err := s.Save(t.Context(), fmt.Sprint(i), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for i := range 8 {
		if got, err := s.Load(t.Context(), fmt.Sprint(i)); got == "" || err != nil {
			t.Errorf("%d is lost: %v", i, err)
		}
	}
}

// A store has the value that was saved last for each key.
func TestMemoryStoreConcurrently(t *testing.T) {
	const n = 200
	s := oauth.NewMemoryStore()
	save := func(name string) func(int) {
		return func(round int) {
			if err := s.Save(t.Context(), fmt.Sprint(name, round%10), oauth.Secret(fmt.Sprint(round))); err != nil {
				t.Error(err)
			}
		}
	}
	racetest.Together(n, save("a"), save("b"), func(round int) {
		if _, err := s.Load(t.Context(), fmt.Sprint("a", round%10)); err != nil {
			t.Error(err)
		}
	})
	for i := range 10 {
		for _, name := range []string{"a", "b"} {
			if got, err := s.Load(t.Context(), fmt.Sprint(name, i)); string(got) != fmt.Sprint(n-10+i) || err != nil {
				t.Errorf("%s%d is %q, %v", name, i, string(got), err)
			}
		}
	}
}

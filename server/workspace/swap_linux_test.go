package workspace_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/server/workspace"
)

// Pipes and devices are refused without blocking.
func TestSpecialFiles(t *testing.T) {
	w := openWorkspace(t)
	pipe := filepath.Join(w.Dir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	special := []string{"pipe"}
	const zero = 1<<8 | 5
	if err := syscall.Mknod(filepath.Join(w.Dir(), "zero"), syscall.S_IFCHR|0o644, zero); err == nil { // root only
		special = append(special, "zero")
	}
	waittest.Return(t, "the refusal of pipes and devices", func() {
		for _, path := range special {
			if _, err := w.Open(path); !errors.Is(err, workspace.ErrNotRegular) {
				t.Errorf("%s: %v", path, err)
			}
			if _, err := w.WriteFile(path, nil); !errors.Is(err, workspace.ErrNotRegular) {
				t.Errorf("%s: %v", path, err)
			}
			if _, err := w.WriteFile(path+"/x", nil); !errors.Is(err, workspace.ErrNotDirectory) {
				t.Errorf("%s: %v", path, err)
			}
			if _, err := w.ReadDir(path); !errors.Is(err, workspace.ErrNotDirectory) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	if err := w.Remove("pipe", false); err != nil {
		t.Error(err)
	}
}

// A large file is refused before it is read.
func TestSparseFile(t *testing.T) {
	w := openWorkspace(t)
	if err := os.Truncate(filepath.Join(w.Dir(), "a.txt"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReadFile("a.txt", 0); !errors.Is(err, workspace.ErrTooLarge) {
		t.Error(err)
	}
}

var swapping = flag.Duration("swap", 300*time.Millisecond, "how long TestSwap exchanges links")

// While files and directories are repeatedly exchanged with links that lead outside, no read
// and no write leaves the workspace.
func TestSwap(t *testing.T) {
	w := openWorkspace(t)
	parent := filepath.Dir(w.Dir())
	outside := filepath.Join(parent, "work-evil")
	for name, text := range map[string]string{"b.txt": "hunter2", "new.txt": "hunter2"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(w.Dir(), "link")
	if err := os.Symlink("../work-evil", link); err != nil {
		t.Fatal(err)
	}
	fileLink := filepath.Join(w.Dir(), "file-link")
	if err := os.Symlink("../secret", fileLink); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swappers, users sync.WaitGroup
	exchange := func(a, b string) {
		for {
			select {
			case <-stop:
				return
			default:
				swap(a, b)
			}
		}
	}
	swappers.Go(func() { exchange(filepath.Join(w.Dir(), "sub"), link) })
	swappers.Go(func() { exchange(filepath.Join(w.Dir(), "a.txt"), fileLink) })
	var reads, writes, refused int
	deadline := time.Now().Add(*swapping)
	users.Go(func() {
		for time.Now().Before(deadline) {
			for _, path := range []string{"sub/b.txt", "a.txt"} {
				data, err := w.ReadFile(path, 0)
				if err == nil {
					reads++
				} else {
					refused++
				}
				if strings.Contains(string(data), "hunter2") {
					t.Errorf("%s was read from outside", path)
				}
			}
		}
	})
	users.Go(func() {
		for time.Now().Before(deadline) {
			if _, err := w.WriteFile("sub/new.txt", []byte("mine")); err == nil {
				writes++
			}
			if _, err := w.WriteFile("a.txt", []byte("mine")); err == nil {
				writes++
			}
			_ = w.Remove("sub/new.txt", true) // which may not exist
			_ = w.Mkdir("sub/dir")
			_ = w.Remove("sub/dir", true)
		}
	})
	users.Wait()
	close(stop)
	swappers.Wait()
	t.Logf("%d reads, %d refused, %d writes", reads, refused, writes)
	if reads == 0 || writes == 0 || refused == 0 {
		t.Error("the test did not exercise all operations")
	}
	for name, want := range map[string]string{"secret": "hunter2", "work-evil/x": "hunter2", "work-evil/b.txt": "hunter2", "work-evil/new.txt": "hunter2"} {
		if data, err := os.ReadFile(filepath.Join(parent, name)); err != nil || string(data) != want {
			t.Errorf("%s is %q: %v", name, data, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 3 {
		t.Errorf("outside: %v %v", entries, err)
	}
}

// No operation blocks while a directory is repeatedly exchanged with a pipe.
func TestSwapForPipe(t *testing.T) {
	w := openWorkspace(t)
	pipe, sub := filepath.Join(w.Dir(), "pipe"), filepath.Join(w.Dir(), "sub")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				swap(pipe, sub)
			}
		}
	})
	go func() {
		defer close(ended)
		for deadline := time.Now().Add(*swapping); time.Now().Before(deadline); {
			_, _ = w.ReadDir("sub") // sub may be the pipe
			if _, err := w.Walk(t.Context(), "", func(string, fs.DirEntry) error { return nil }); err != nil {
				t.Error(err)
			}
			_ = w.Mkdir("sub/deep/er")
			_ = w.Remove("sub", true)
		}
	}()
	select {
	case <-ended:
	case <-time.After(*swapping + 10*time.Second):
		t.Error("an operation blocks on the pipe")
	}
	close(stop)
	group.Wait()
	for _, name := range []string{pipe, sub} { // unblock a pending open
		if f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	}
	<-ended
}

// swap exchanges two names atomically.
func swap(a, b string) { _ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) }

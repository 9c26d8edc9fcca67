package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

func TestOpenUnusualPaths(t *testing.T) {
	for _, name := range []string{"a b.db", "a?b=c&d.db", "a#b.db", "100%20.db", "%.db", "é😀.db", "a'b\"c.db", "a;b.db", "-memory", ":memory:.db", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		if runtime.GOOS == "windows" && strings.ContainsAny(name, `?":`) {
			continue // no names there
		}
		store := open(t, path, nil)
		if err := save(t.Context(), store, "key", ""); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 || entries[0].Name() != name {
			t.Errorf("%q is made as %v, %v", name, entries, err)
		}
	}
}

func TestOpenRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	store := open(t, "memory.db", nil)
	t.Chdir(t.TempDir())
	var all sync.WaitGroup
	for i := range 10 { // new connections
		all.Go(func() {
			if _, err := store.List(t.Context(), conversations(), memory.Query{}); err != nil {
				t.Errorf("operation %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if err := save(t.Context(), store, "key", ""); err != nil {
		t.Error(err)
	}
}

func TestOpenErrors(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database, but a text. ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                                  "expected the path of a file",
		":memory:":                          "use memory.InMemory",
		folder:                              "unable to open",
		text:                                "not a database",
		filepath.Join(folder, "none", "db"): "no such file or directory",
	} {
		store, err := sqlite.Open(t.Context(), path, nil)
		if err == nil {
			store.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sqlite: ") {
			t.Errorf("opening %q: %v, want %q", path, err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Open(ended, newPath(t), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("opening with a context that has ended: %v", err)
	}
}

// A database of another application stays unchanged, including its journal mode.
func TestForeignDatabase(t *testing.T) {
	for name, statements := range map[string][]string{
		"tables":                       {"CREATE TABLE record (x)"},
		"tables and a version":         {"CREATE TABLE t (x)", "PRAGMA user_version = 1"},
		"a version":                    {"PRAGMA user_version = 1"},
		"an application":               {"PRAGMA application_id = 1"},
		"an application and a version": {"PRAGMA application_id = 1", "PRAGMA user_version = 1", "CREATE TABLE t (x)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			db := openSQL(t, path)
			for _, statement := range statements {
				execute(t, db, statement)
			}
			db.Close()
			wantRejectedUnchanged(t, path, func(err error) bool { return errors.Is(err, sqlite.ErrForeign) })
		})
	}
}

func TestNewerVersion(t *testing.T) {
	path := newPath(t)
	open(t, path, nil).Close()
	db := openSQL(t, path)
	execute(t, db, "PRAGMA journal_mode = DELETE; PRAGMA user_version = 1000")
	db.Close()
	wantRejectedUnchanged(t, path, func(err error) bool {
		future, ok := errors.AsType[*sqlite.VersionError](err)
		return ok && future.Found == 1000 && future.Known == 1 && strings.Contains(err.Error(), "use a newer program")
	})
}

func wantRejectedUnchanged(t *testing.T, path string, want func(error) bool) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if store, err := sqlite.Open(t.Context(), path, nil); err == nil {
		store.Close()
		t.Error("it was opened")
	} else if !want(err) {
		t.Errorf("opening: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed (%v)", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("something is left beside the file: %v, %v", entries, err)
	}
}

// An empty file may have been created to set its permissions.
func TestOpenEmptyFile(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := save(t.Context(), open(t, path, nil), "key", ""); err != nil {
		t.Error(err)
	}
}

func TestFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are of other systems")
	}
	path := newPath(t)
	store := open(t, path, nil)
	if err := save(t.Context(), store, "key", "value"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(name), info.Mode())
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s still exists (%v)", filepath.Base(name), err)
		}
	}
}

func TestDeleteOverwrites(t *testing.T) {
	path := newPath(t)
	store := open(t, path, nil)
	const secret = "the password is swordfish"
	for _, value := range []string{secret, strings.Repeat(secret, 1000)} {
		for _, key := range []string{"deleted", "replaced", "stays"} {
			if err := save(t.Context(), store, key, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := save(t.Context(), store, "replaced", "other"); err != nil {
			t.Fatal(err)
		}
		if err := save(t.Context(), store, "stays", "other"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Delete(t.Context(), conversations(), "deleted"); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || bytes.Contains(content, []byte("swordfish")) {
		t.Errorf("what was deleted is still in the file (%v)", err)
	}
}

// A file that does not exist can be opened concurrently.
func TestOpenConcurrently(t *testing.T) {
	for range 10 {
		path := newPath(t)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				store, err := sqlite.Open(t.Context(), path, nil)
				if err != nil {
					t.Errorf("opening at the same time: %v", err)
					return
				}
				defer store.Close()
				if err := save(t.Context(), store, fmt.Sprint(i), ""); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		checkIntegrity(t, path)
		db := openSQL(t, path)
		if got := queryValue(t, db, "SELECT count(*) || ' ' || (SELECT user_version FROM pragma_user_version) FROM record"); got != "8 1" {
			t.Errorf("records and version: %s", got)
		}
		db.Close()
	}
}

func TestLimitsOfSharedFile(t *testing.T) {
	path := newPath(t)
	opts := &sqlite.Options{Limits: &memory.Limits{Conversations: 20}}
	var all sync.WaitGroup
	for i := range 4 {
		store := open(t, path, opts)
		all.Go(func() {
			for round := range 20 {
				err := save(t.Context(), store, fmt.Sprint(i, "/", round), "")
				if _, full := errors.AsType[*memory.FullError](err); err != nil && !full {
					t.Errorf("saving: %v", err)
				}
			}
		})
	}
	all.Wait()
	if records, err := open(t, path, opts).List(t.Context(), conversations(), memory.Query{}); err != nil || len(records) != 20 {
		t.Errorf("%d records, %v, want 20", len(records), err)
	}
	checkIntegrity(t, path)
}

// lockFile takes the lock that writers need.
func lockFile(t *testing.T, path string) (release func()) {
	t.Helper()
	db := openSQL(t, path)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Close()
		db.Close()
	}
}

func TestWriteWaitsForLock(t *testing.T) {
	path := newPath(t)
	store := open(t, path, &sqlite.Options{BusyTimeout: time.Minute})
	release := lockFile(t, path)
	saved := make(chan error, 1)
	go func() { saved <- save(t.Context(), store, "key", "value") }()
	if _, err := store.Load(t.Context(), conversations(), "key"); !errors.Is(err, memory.ErrNotFound) {
		t.Errorf("reading beside a writer: %v", err)
	}
	release()
	if err := <-saved; err != nil {
		t.Errorf("saving after another has written: %v", err)
	}
}

func TestWriteTimeout(t *testing.T) {
	path := newPath(t)
	store, patient := open(t, path, &sqlite.Options{BusyTimeout: 50 * time.Millisecond}), open(t, path, &sqlite.Options{BusyTimeout: time.Hour})
	release := lockFile(t, path)
	saved := make(chan error, 1)
	go func() { saved <- save(t.Context(), patient, "other key", "value") }()
	if err := save(t.Context(), store, "key", "value"); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("saving while another writes: %v", err)
	}
	if _, err := store.Delete(t.Context(), conversations(), "key"); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("deleting while another writes: %v", err)
	}
	select {
	case err := <-saved:
		t.Errorf("saving with a long timeout while another writes: %v", err)
	default:
	}
	release()
	if err := waittest.Receive(t, "saving with a long timeout", saved); err != nil {
		t.Errorf("saving with a long timeout: %v", err)
	}
}

func TestWriteCanceled(t *testing.T) {
	path := newPath(t)
	store := open(t, path, &sqlite.Options{BusyTimeout: time.Hour})
	defer lockFile(t, path)()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := save(ctx, store, "key", "value"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("saving while another writes: %v", err)
	}
	if _, err := store.Delete(ctx, conversations(), "key"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deleting while another writes: %v", err)
	}
}

// Triggers count the changes of other programs.
func TestOtherProgramsWrite(t *testing.T) {
	path := newPath(t)
	store := open(t, path, &sqlite.Options{Limits: &memory.Limits{OwnerBytes: 2000}})
	if err := save(t.Context(), store, "key", strings.Repeat("x", 1700)); err != nil {
		t.Fatal(err)
	}
	db := openSQL(t, path)
	execute(t, db, "UPDATE record SET owner = 'ann'")
	checkIntegrity(t, path)
	if err := save(t.Context(), store, "key", "value"); err != nil {
		t.Errorf("the room that was given away is still taken: %v", err)
	}
	execute(t, db, "DELETE FROM record WHERE owner = 'ann'")
	checkIntegrity(t, path)
	if got := queryValue(t, db, "SELECT group_concat(owner) FROM usage"); got != "" {
		t.Errorf("owners are left that own nothing: %q", got)
	}
}

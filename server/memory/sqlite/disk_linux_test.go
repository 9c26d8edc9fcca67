package sqlite_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

// A disk is a folder in which files cannot grow between fill and free.
type disk struct {
	folder     string
	fill, free func(t *testing.T)
}

// limited returns a folder while the size of all files of this process can be limited.
func limited(t *testing.T) *disk {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(t *testing.T, soft uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: soft, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(t, before.Cur) })
	return &disk{t.TempDir(), func(t *testing.T) { set(t, 1<<10) }, func(t *testing.T) { set(t, before.Cur) }}
}

// saved returns what a store contains.
func saved(t *testing.T, store memory.Store) map[string]string {
	t.Helper()
	all, err := store.List(t.Context(), conversations(), memory.Query{Values: true})
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	values := make(map[string]string)
	for _, record := range all {
		values[record.Key] = record.Value
	}
	return values
}

func TestLimitedFiles(t *testing.T) { testFullDisk(t, limited(t)) }

// While the disk is full, saving fails with the reason and at once, and what was saved can be read. When there is space
// again, the store goes on without a restart. Nothing is lost that was said to be saved, and nothing is there that was not.
func testFullDisk(t *testing.T, d *disk) {
	path := filepath.Join(d.folder, "memory.db")
	store := open(t, path, &sqlite.Options{Limits: &memory.Limits{Conversations: -1}})
	want := make(map[string]string)
	put := func(ctx context.Context, key, value string) error {
		err := save(ctx, store, key, value)
		if err == nil {
			want[key] = value
		}
		return err
	}
	for i := range 40 {
		if err := put(t.Context(), key(i), "before"); err != nil {
			t.Fatal(err)
		}
	}
	d.fill(t)
	var reasons []error
	began, attempts := time.Now(), 0
	for ; len(reasons) < 20 && attempts < 2000; attempts++ { // the log may have room
		if err := put(t.Context(), key(attempts%50), fmt.Sprint("while it is full ", attempts, strings.Repeat("x", 5000))); err != nil {
			reasons = append(reasons, err)
		}
	}
	took := time.Since(began)
	during := saved(t, store)
	_, loadErr := store.Load(t.Context(), conversations(), key(0))
	deleted, deleteErr := store.Delete(t.Context(), conversations(), key(1))
	if deleteErr == nil {
		delete(want, key(1))
	}
	_, openErr := sqlite.Open(t.Context(), filepath.Join(d.folder, "another.db"), nil)
	d.free(t)

	t.Logf("%d of %d attempts failed in %v: %v; deleted: %t, %v; another file: %v", len(reasons), attempts, took, reasons[0], deleted, deleteErr, openErr)
	if len(reasons) != 20 || took > 10*time.Second {
		t.Errorf("%d attempts failed in %v", len(reasons), took)
	}
	for _, err := range reasons {
		if !strings.Contains(err.Error(), "full") && !strings.Contains(err.Error(), "I/O") {
			t.Errorf("the error is %v", err)
		}
	}
	if openErr == nil || !strings.Contains(openErr.Error(), "another.db") {
		t.Errorf("opening another file: %v", openErr)
	}
	if loadErr != nil {
		t.Errorf("reading while the disk is full: %v", loadErr)
	}
	if deleteErr != nil {
		want[key(1)] = during[key(1)]
	} else {
		delete(during, key(1))
	}
	if !maps.Equal(during, want) {
		t.Errorf("while the disk is full, the store has %d records, want %d", len(during), len(want))
	}
	for i := range 40 {
		if err := put(t.Context(), key(i), "after"+strings.Repeat("y", 5000)); err != nil {
			t.Fatalf("with space again: %v", err)
		}
	}
	if got := saved(t, store); !maps.Equal(got, want) {
		t.Errorf("with space again, the store has %d records, want %d", len(got), len(want))
	}
	if again := saved(t, open(t, path, nil)); !maps.Equal(again, want) {
		t.Errorf("opened again, the store has %d records, want %d", len(again), len(want))
	}
	if other, err := sqlite.Open(t.Context(), filepath.Join(d.folder, "another.db"), nil); err != nil {
		t.Errorf("opening the other file with space again: %v", err)
	} else if err := other.Close(); err != nil {
		t.Error(err)
	}
	checkIntegrity(t, path)
}

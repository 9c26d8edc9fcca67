package sharedfile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := sharedfile.OpenLocked(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := sharedfile.TryLock(other); !errors.Is(err, sharedfile.ErrLocked) {
		t.Errorf("a locked file: %v", err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := sharedfile.OpenLocked(ctx, path); !errors.Is(err, stop) {
		t.Errorf("a caller that left: %v", err)
	}
	second := make(chan *os.File)
	go func() {
		file, err := sharedfile.OpenLocked(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		second <- file
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if file := <-second; file.Close() != nil {
		t.Error("closing has failed")
	}
	if err := sharedfile.TryLock(other); err != nil {
		t.Errorf("after all locks were released: %v", err)
	}
	if _, err := sharedfile.OpenLocked(t.Context(), filepath.Join(path, "x")); err == nil {
		t.Error("a file in a file is locked")
	}
}

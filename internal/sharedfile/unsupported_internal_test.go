package sharedfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file system without locks is used without them. Other failures are errors.
func TestOpenWithoutSupport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	file, err := openLocked(t.Context(), path, func(*os.File) error { return &os.SyscallError{Syscall: "flock", Err: errors.ErrUnsupported} })
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := openLocked(t.Context(), path, func(*os.File) error { return io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("another failure: %v", err)
	}
}

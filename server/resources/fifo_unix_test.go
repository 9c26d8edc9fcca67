//go:build unix

package resources_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// makeFIFO creates a named pipe without a writer. It returns false on systems without pipes.
func makeFIFO(t testing.TB, root *os.Root, name string) bool {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(root.Name(), name), 0o666); err != nil {
		t.Fatal(err)
	}
	return true
}

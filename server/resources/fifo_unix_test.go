//go:build unix

package resources_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// makeFIFO makes a pipe that nobody writes to, if the system has such.
func makeFIFO(t testing.TB, root *os.Root, name string) bool {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(root.Name(), name), 0o666); err != nil {
		t.Fatal(err)
	}
	return true
}

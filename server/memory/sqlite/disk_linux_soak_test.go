//go:build soak && linux

package sqlite_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// diskSize is the size of the test's file system in bytes.
const diskSize = 4 << 20

// mounted returns a small file system.
func mounted(t *testing.T) *disk {
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprint("size=", diskSize)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(folder, "filler")
	return &disk{folder, func(t *testing.T) {
		file, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := io.Copy(file, strings.NewReader(strings.Repeat("x", diskSize))); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}, func(t *testing.T) {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}}
}

// TestFullFileSystem needs the right to mount a file system.
func TestFullFileSystem(t *testing.T) { testFullDisk(t, mounted(t)) }

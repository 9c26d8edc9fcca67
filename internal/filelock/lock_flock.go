//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Try locks a file for this process until the file is closed. The error is [ErrLocked] if the
// file is locked.
func Try(file *os.File) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = connection.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(locked, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return errors.Join(err, locked)
}

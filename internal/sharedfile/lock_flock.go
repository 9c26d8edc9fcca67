//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sharedfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks a file for this process until the file is closed. The error is [ErrLocked] if the
// file is locked, and [errors.ErrUnsupported] if its file system has no locks.
func TryLock(file *os.File) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = connection.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	return errors.Join(err, lockError(locked))
}

// lockError converts an error of flock. A network file system without a lock service fails with
// ENOLCK. ENOSYS and EOPNOTSUPP are errors.ErrUnsupported already.
func lockError(err error) error {
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrLocked
	case errors.Is(err, unix.ENOLCK):
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

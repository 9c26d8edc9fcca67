//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package approval

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks the file for this process until it is closed. The lock is advisory.
func lock(file *os.File) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = connection.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(locked, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return errors.Join(err, locked)
}

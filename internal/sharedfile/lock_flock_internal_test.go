//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sharedfile

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TryLock says which failures mean that the file system has no locks.
func TestLockErrors(t *testing.T) {
	for errno, unsupported := range map[unix.Errno]bool{
		unix.ENOLCK: true, unix.ENOSYS: true, unix.EOPNOTSUPP: true, unix.EWOULDBLOCK: false, unix.EIO: false, unix.EBADF: false,
	} {
		err := lockError(errno)
		if errors.Is(err, errors.ErrUnsupported) != unsupported || errors.Is(err, ErrLocked) != (errno == unix.EWOULDBLOCK) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := lockError(nil); err != nil {
		t.Errorf("without a failure: %v", err)
	}
}

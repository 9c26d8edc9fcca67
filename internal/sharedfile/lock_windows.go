package sharedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks a file for this process until the file is closed. The error is [ErrLocked] if the
// file is locked. On Windows other processes cannot read a locked range, so TryLock locks a byte
// beyond any possible end of the file.
func TryLock(file *os.File) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = connection.Control(func(handle uintptr) {
		const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		locked = windows.LockFileEx(windows.Handle(handle), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	})
	if errors.Is(locked, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return errors.Join(err, locked)
}

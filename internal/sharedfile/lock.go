package sharedfile

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
)

// ErrLocked says that a file is locked, by this or another process.
var ErrLocked = errors.New("the file is locked by this or another process")

// OpenLocked opens a file for writing, creates it if necessary with the mode 0600, and waits for its
// lock. Close the file to release the lock. When ctx ends first, the error is its cause. On a
// file system without locks, OpenLocked returns the file, which is not locked.
func OpenLocked(ctx context.Context, path string) (*os.File, error) {
	return openLocked(ctx, path, TryLock)
}

func openLocked(ctx context.Context, path string, try func(*os.File) error) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// The system's waiting lock could not be canceled.
	pause := backoff.Backoff{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	for {
		if err = try(file); !errors.Is(err, ErrLocked) {
			if errors.Is(err, errors.ErrUnsupported) {
				err = nil
			}
			break
		}
		if pause.Wait(ctx) != nil {
			err = context.Cause(ctx)
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package sharedfile

import "os"

// TryLock does nothing: this system has no locks that are released when a process ends.
func TryLock(*os.File) error { return nil }

//go:build unix

package toolserver_test

import "syscall"

func isRunning(pid int) bool { return syscall.Kill(pid, 0) == nil }

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

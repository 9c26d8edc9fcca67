//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package tty

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// DiscardInput discards what was typed and not read yet, and reports whether in is a terminal: tcflush(3). In a
// background job of a shell it discards nothing: what is typed is read by the shell, and the attempt would stop the job
// (SIGTTOU).
func DiscardInput(in io.Reader) (isTerminal bool) {
	file, ok := in.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		foreground, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
		isBackground := err == nil && foreground != unix.Getpgrp() // another terminal than that of the process has no foreground
		isTerminal = isBackground || flushInput(int(fd)) == nil
	})
	return isTerminal && err == nil
}

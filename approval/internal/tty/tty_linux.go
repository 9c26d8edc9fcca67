package tty

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// DiscardInput discards what was typed and not read yet, and reports whether in is a terminal:
// ioctl_tty(2).
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
		isTerminal = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) == nil
	})
	return isTerminal && err == nil
}

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package tty

import "io"

// DiscardInput does nothing on this system.
func DiscardInput(io.Reader) (isTerminal bool) { return false }

//go:build !linux

package tty

import "io"

// DiscardInput does nothing on this system.
func DiscardInput(io.Reader) (isTerminal bool) { return false }

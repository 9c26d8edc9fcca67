//go:build !linux

package streamable

import "syscall"

// refuseConnections does nothing. A connection that is made while the listener is being closed is lost.
func refuseConnections(syscall.RawConn) error { return nil }

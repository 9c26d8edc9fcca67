//go:build unix

package workspace

import "syscall"

// nonBlocking has a pipe be opened at once.
const nonBlocking = syscall.O_NONBLOCK

//go:build !linux

package procgroup

import (
	"fmt"
	"os"
)

// Self is empty: this system has no guard processes.
const Self = ""

// Supervise fails: this system has no guard processes.
func Supervise(Supervision, []string) (status int) {
	fmt.Fprintln(os.Stderr, "this system has no guard processes")
	return StatusNotStarted
}

//go:build unix && !linux

package spawn

import (
	"os/exec"
	"syscall"
)

// isolate puts the child into a process group of its own.
func isolate(cmd *exec.Cmd, _ syscall.Signal) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

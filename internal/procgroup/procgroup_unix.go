//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// inherited returns the names of the variables that a child gets by default.
func inherited() []string {
	return []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"}
}

// isolate puts the child into a process group of its own.
func isolate(cmd *exec.Cmd, orphaned syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signalOrphan(cmd.SysProcAttr, orphaned)
}

func interrupt(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGINT) }

func terminate(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

func kill(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

// signalGroup signals the child's group. It fails when the group has ended already.
func signalGroup(cmd *exec.Cmd, s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) }

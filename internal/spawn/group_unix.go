//go:build unix

package spawn

import (
	"os/exec"
	"syscall"
)

// inherited are the variables that a child gets by default.
func inherited() []string {
	return []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"}
}

func terminate(cmd *exec.Cmd) { signal(cmd, syscall.SIGTERM) }

func kill(cmd *exec.Cmd) { signal(cmd, syscall.SIGKILL) }

// signal signals a group that may be gone already, which is what was wanted.
func signal(cmd *exec.Cmd, s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) }

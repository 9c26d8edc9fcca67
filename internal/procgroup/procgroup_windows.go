package procgroup

import (
	"os/exec"
	"syscall"
)

// inherited returns the names of the variables that a child gets by default.
func inherited() []string {
	return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PROCESSOR_ARCHITECTURE",
		"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
}

func isolate(*exec.Cmd, syscall.Signal) {}

// interrupt kills the child, since Windows has no INT.
func interrupt(cmd *exec.Cmd) { kill(cmd) }

// terminate kills the child, since Windows has no TERM.
func terminate(cmd *exec.Cmd) { kill(cmd) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

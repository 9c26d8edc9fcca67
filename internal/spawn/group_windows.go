package spawn

import (
	"os/exec"
	"syscall"
)

// inherited are the variables that a child gets by default.
func inherited() []string {
	return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PROCESSOR_ARCHITECTURE",
		"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
}

func isolate(*exec.Cmd, syscall.Signal) {}

// Terminate does nothing: Windows has no TERM.
func Terminate(*exec.Cmd) {}

// Kill ends a command that has been started.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

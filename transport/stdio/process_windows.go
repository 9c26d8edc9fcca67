package stdio

import "os/exec"

// inherited are the variables a child gets by default.
var inherited = []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PROCESSOR_ARCHITECTURE",
	"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}

func isolate(*exec.Cmd) {}

// terminateGroup does nothing: Windows has no TERM, and the child's input has
// ended already.
func terminateGroup(*exec.Cmd) {}

// killGroup ends the child.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

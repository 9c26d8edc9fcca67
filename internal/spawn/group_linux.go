package spawn

import (
	"os/exec"
	"syscall"
)

// isolate puts the child into a process group of its own, and has the kernel signal it
// when this process dies.
func isolate(cmd *exec.Cmd, orphaned syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
}

package procgroup

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// signalOrphan has the kernel signal the child when this process dies.
func signalOrphan(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// wait waits until the child has ended. It kills what is left of the child's group before
// it reaps the child: until then no other process can get the id of the group. Then it kills
// processes that have left the group.
func (c *Child) wait() error {
	for unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.killGroup()
	leader, _ := readStat(c.cmd.Process.Pid)
	killMarked(c.mark, leader.startTime)
	return c.cmd.Wait()
}

// isZombie reports whether the child has ended and was not waited for. c.mu is held, and c.ended is false. The
// state in /proc is also that of a zombie if only the main thread of the child has ended.
func (c *Child) isZombie() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

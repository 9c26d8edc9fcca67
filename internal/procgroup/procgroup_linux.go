package procgroup

import "syscall"

// signalOrphan has the kernel signal the child when this process dies.
func signalOrphan(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// wait waits until the child has ended. It kills what is left of the child's group before
// it reaps the child: until then no other process can get the id of the group. Then it kills
// processes that have left the group.
func (c *Child) wait() error {
	const byPID = 1 // P_PID of waitid(2)
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(c.cmd.Process.Pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if err != syscall.EINTR {
			break
		}
	}
	c.killGroup()
	leader, _ := readStat(c.cmd.Process.Pid)
	killMarked(c.mark, leader.startTime)
	return c.cmd.Wait()
}

// isZombie reports whether the child has ended and was not waited for. c.mu is held, and c.ended is false.
func (c *Child) isZombie() bool {
	p, ok := readStat(c.cmd.Process.Pid)
	return ok && p.zombie
}

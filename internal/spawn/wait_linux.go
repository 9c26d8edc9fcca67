package spawn

import "syscall"

// wait waits until the child has ended. What it leaves behind is killed while the id of its
// group is still its own, which it is until somebody has waited for it.
func (c *Child) wait() error {
	const byPID = 1 // P_PID of waitid(2)
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(c.cmd.Process.Pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if err != syscall.EINTR {
			break
		}
	}
	c.bury()
	return c.cmd.Wait()
}

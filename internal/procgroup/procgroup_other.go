//go:build !linux

package procgroup

import "syscall"

func signalOrphan(*syscall.SysProcAttr, syscall.Signal) {}

// wait waits until the child has ended, and kills what is left of the child's group. The id
// of the group belongs to another only when no process is left in it.
func (c *Child) wait() error {
	err := c.cmd.Wait()
	c.killGroup()
	return err
}

func (*Child) isZombie() bool { return false }

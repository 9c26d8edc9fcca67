//go:build !linux

package spawn

// wait waits until the child has ended. The id of its group is another's only if nobody is
// left in it.
func (c *Child) wait() error {
	err := c.cmd.Wait()
	c.bury()
	return err
}

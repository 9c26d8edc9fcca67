package spawn

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// A Child is a process that has been launched, with the group that it leads.
type Child struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	gone bool // from now on its id may be somebody else's
}

// Launch starts a command that leads a process group of its own. On Linux it gets the
// signal when this process dies. When it has ended, what is left of its group is killed,
// and then ended is called with how it ended, as Cmd.Wait says, on a goroutine of its own.
//
// Linux sends that signal when the thread ends that started the child, so the goroutine
// keeps its thread for as long.
func Launch(cmd *exec.Cmd, orphaned syscall.Signal, ended func(error)) (*Child, error) {
	isolate(cmd, orphaned)
	c := &Child{cmd: cmd}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(c.wait())
		}
	}()
	return c, <-started
}

// Terminate asks the child and its group to end, unless it has ended. On Windows, where
// nothing can be asked, it kills the child.
func (c *Child) Terminate() { c.signal(terminate) }

// Kill ends them, unless the child has ended.
func (c *Child) Kill() { c.signal(kill) }

func (c *Child) signal(send func(*exec.Cmd)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		send(c.cmd)
	}
}

// bury kills what a child has left behind in its group.
func (c *Child) bury() {
	c.mu.Lock()
	defer c.mu.Unlock()
	kill(c.cmd)
	c.gone = true
}

// Environment is what a child gets without being told: what finds programs and the
// user's files, and no secrets; or all that this process has.
func Environment(all bool) []string {
	if all {
		return os.Environ()
	}
	env := []string{} // a nil one would be all
	for _, name := range inherited() {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

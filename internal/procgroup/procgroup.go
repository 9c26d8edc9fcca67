package procgroup

import (
	"crypto/rand"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Child is a running process that leads a process group of its own.
type Child struct {
	cmd  *exec.Cmd
	mark string // what all its descendants have in their environment

	mu    sync.Mutex
	ended bool // the operating system may have given the process id to another process
}

// Launch starts cmd as the leader of a new process group. On Linux the kernel sends the
// signal orphaned to the child when this process dies. When the child has ended, Launch
// kills the other processes of the group and then calls ended with the error of Cmd.Wait,
// on a goroutine of its own.
//
// On Linux, Launch also kills descendants that have left the group, such as daemons. It finds
// them by the variable [MarkVariable] of their environment. Descendants that were started
// without this variable, or that have overwritten it, are not found.
func Launch(cmd *exec.Cmd, orphaned syscall.Signal, ended func(error)) (*Child, error) {
	isolate(cmd, orphaned)
	c := &Child{cmd: cmd, mark: rand.Text()}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, MarkVariable+"="+os.Getenv(MarkVariable)+"/"+c.mark)
	started := make(chan error, 1)
	go func() {
		// Linux sends the signal when the thread that started the child ends.
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

// MarkVariable is an environment variable of each child. Its value has a random word for the
// child and for each ancestor that was started by [Launch], separated by slashes.
const MarkVariable = "DOVETAIL_PROCESS"

// Unmarked returns an environment without [MarkVariable], for a program that must not end with this
// process.
func Unmarked(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, MarkVariable+"=") })
}

// HasEnded reports whether the child has ended. Its group, and the processes that it has left behind, may be ending still.
func (c *Child) HasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended || c.isZombie()
}

// Terminate sends TERM to the child's group. It does nothing after the child has ended.
// On Windows, which has no such signal, it kills the child.
func (c *Child) Terminate() { c.signal(terminate) }

// Interrupt sends INT to the child's group. It does nothing after the child has ended.
// On Windows, which has no such signal, it kills the child.
func (c *Child) Interrupt() { c.signal(interrupt) }

// Kill kills the child's group. It does nothing after the child has ended.
func (c *Child) Kill() { c.signal(kill) }

func (c *Child) signal(send func(*exec.Cmd)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		send(c.cmd)
	}
}

// killGroup kills what is left of the child's group. Later signals are dropped.
func (c *Child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	kill(c.cmd)
	c.ended = true
}

// Environment returns the default environment of a child: all variables of this process, or only the variables that
// programs need to find other programs and the user's files.
func Environment(all bool) []string {
	if all {
		return os.Environ()
	}
	env := []string{} // exec.Cmd takes nil as the whole environment
	for _, name := range append(inherited(), raceDetectorVariables...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

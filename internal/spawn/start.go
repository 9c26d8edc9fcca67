package spawn

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a command that leads a process group of its own. On Linux it gets the
// signal when this process dies. When it has ended, what is left of its group is killed,
// and then ended is called with how it ended, as Cmd.Wait says, on a goroutine of its own.
//
// Linux sends that signal when the thread ends that started the child, so the goroutine
// keeps its thread for as long.
func Start(cmd *exec.Cmd, orphaned syscall.Signal, ended func(error)) error {
	isolate(cmd, orphaned)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		Kill(cmd)                              // children it leaves behind
		if errors.Is(err, exec.ErrWaitDelay) { // that is about somebody else
			err = nil
		}
		ended(err)
	}()
	return <-started
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

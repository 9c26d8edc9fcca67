package procgroup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Self is the executable of this process, even after its file was replaced: proc_pid_exe(5). It is empty on systems
// where [Supervise] does nothing.
const Self = "/proc/self/exe"

const (
	// countInterval is the pause between two counts of the processes.
	countInterval = 50 * time.Millisecond
	// printTimeout bounds writing a message to a standard error that may not be read.
	printTimeout = time.Second
)

// A supervisor is the state of a guard process. It ends when all its descendants have ended.
type supervisor struct {
	Supervision
	leader        int // process id of the command
	status        int // exit status of the guard process: the exit status of the command
	limitExceeded bool
	exits         chan exit        // closed when no child is left
	ends          chan os.Signal   // requests to end the command
	interrupts    chan os.Signal   // requests to interrupt it; nil after its end
	graceOver     <-chan time.Time // when to kill what has not ended after SIGTERM
	killAgain     <-chan time.Time
	giveUp        <-chan time.Time // when to stop killing
}

// An exit is the end of one child, adopted ones included.
type exit struct {
	pid    int
	status syscall.WaitStatus
}

// Supervise runs a command, and returns its exit status after all its descendants have ended. The command gets the
// standard streams of this process, which is a guard process.
func Supervise(options Supervision, argv []string) (status int) {
	// The kernel ties a parent death signal to the thread that requested it, and sends it
	// when the parent's thread ends.
	runtime.LockOSThread()
	s := &supervisor{Supervision: options, exits: make(chan exit), ends: make(chan os.Signal, 1), interrupts: make(chan os.Signal, 1)}
	// A full channel drops signals. Interrupts have their own channel, so that they cannot fill the channel of the
	// others.
	signal.Notify(s.ends, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(s.interrupts, syscall.SIGINT)
	if err := s.start(argv); err != nil {
		printError(err)
		return StatusNotStarted
	}
	go s.reap()
	s.run()
	if s.limitExceeded {
		printError(fmt.Errorf("killed: it consisted of more than %d processes", s.MaxProcesses))
	}
	return s.status
}

// printError writes to the command's standard error. It must be called last: it ignores
// SIGPIPE, which children would inherit.
func printError(err error) {
	signal.Ignore(syscall.SIGPIPE)
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(os.Stderr, err)
	}()
	select {
	case <-printed:
	case <-time.After(printTimeout):
	}
}

// start starts the command with the standard streams of the guard process.
func (s *supervisor) start(argv []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopting orphans: %w", err)
	}
	// Launch has set SIGKILL, which would leave the descendants without a guard process.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("ending with the parent: %w", err)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	leader, err := os.StartProcess(path, argv, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	s.leader = leader.Pid
	// The other ends must see when the command closes its streams.
	for _, stream := range []*os.File{os.Stdin, os.Stdout} {
		_ = stream.Close()
	}
	return leader.Release()
}

// reap waits until all children have ended.
func (s *supervisor) reap() {
	defer close(s.exits)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			s.exits <- exit{pid, status}
		case syscall.EINTR:
		default:
			return
		}
	}
}

// run ends the descendants when the command has ended, on SIGTERM or SIGHUP, or when there are
// too many. It passes SIGINT on. It returns when all descendants have ended.
func (s *supervisor) run() {
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	var newest newestProcess
	for {
		select {
		case e, more := <-s.exits:
			if !more {
				return
			}
			if e.pid == s.leader {
				s.leaderExited(e.status)
			}
		case <-s.interrupts:
			_ = syscall.Kill(-s.leader, syscall.SIGINT) // fails if the group has ended
		case <-s.ends:
			if s.graceOver == nil {
				s.graceOver = time.After(s.Grace)
				signalDescendants(syscall.SIGTERM)
			}
		case <-s.graceOver:
			s.kill()
		case <-s.killAgain:
			s.kill()
		case <-s.giveUp:
			return
		case <-tick.C:
			if s.killAgain == nil && newest.changed() && len(descendants(os.Getpid())) > s.MaxProcesses {
				s.limitExceeded = true
				s.kill()
			}
		}
	}
}

// leaderExited records the status of the command and ignores further interrupts, because another process may have its
// process id now. Its descendants are killed, after the grace period if they have received SIGTERM.
func (s *supervisor) leaderExited(status syscall.WaitStatus) {
	s.interrupts = nil
	s.status = status.ExitStatus()
	if status.Signaled() {
		s.status = SignalBase + int(status.Signal())
	}
	if s.graceOver == nil {
		s.kill()
	}
}

// kill kills all descendants and schedules another attempt, because a process may have
// created a child before it was killed.
func (s *supervisor) kill() {
	signalDescendants(syscall.SIGSTOP) // a stopped process creates no children
	signalDescendants(syscall.SIGKILL)
	s.killAgain = time.After(killInterval)
	if s.giveUp == nil {
		s.giveUp = time.After(killTimeout)
	}
}

func signalDescendants(s syscall.Signal) {
	for _, d := range descendants(os.Getpid()) {
		d.signal(s)
	}
}

// A newestProcess detects that processes were created on this machine, which is cheaper than
// listing all of them.
type newestProcess struct{ pid string }

// changed compares the id of the newest process with the id at the last call: proc_loadavg(5).
func (n *newestProcess) changed() bool {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return true
	}
	pid := string(load[bytes.LastIndexByte(load, ' ')+1:])
	changed := pid != n.pid
	n.pid = pid
	return changed
}

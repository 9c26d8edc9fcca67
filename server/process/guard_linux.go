package process

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self is this program for whom it starts, even when another file has taken its place:
// proc_pid_exe(5).
const self = "/proc/self/exe"

const (
	// killInterval is how long it gives those that it has killed to be gone, before it
	// looks who has been born meanwhile.
	killInterval = 5 * time.Millisecond
	// killGrace is how long it goes on with that. Who is still there then cannot be killed,
	// such as a program of another user.
	killGrace = 2 * time.Second
	// sayGrace is how long it waits for who should read what it says.
	sayGrace = time.Second
)

// A warden is a guard at work. It ends when all its descendants have.
type warden struct {
	orders
	leader int
	status int              // of the guard: the leader's, if it has ended by itself
	crowd  bool             // there were too many descendants
	deaths chan death       // closed when nobody is left
	told   chan os.Signal   // to end
	grace  <-chan time.Time // until those are killed who have been told to end
	killed <-chan time.Time // when to look again for somebody to kill
	futile <-chan time.Time // when to give that up
}

type death struct {
	pid    int
	status syscall.WaitStatus
}

// guard runs a command, and returns its exit status when it and all its descendants have
// ended.
func (o orders) guard(argv []string) int {
	// What the kernel does when a parent dies, it does for the thread that asked, and when
	// the thread of the parent dies.
	runtime.LockOSThread()
	w := &warden{orders: o, deaths: make(chan death), told: make(chan os.Signal, 1)}
	signal.Notify(w.told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := w.start(argv); err != nil {
		say(err)
		return notStarted
	}
	go w.reap()
	w.watch()
	if w.crowd {
		say(fmt.Errorf("killed: it consisted of more than %d processes", w.processes))
	}
	return w.status
}

// say tells whoever reads the command's standard error something. It comes last, because
// nobody may read, and because children would inherit the signal that is ignored.
func say(what error) {
	signal.Ignore(syscall.SIGPIPE)
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(os.Stderr, what)
	}()
	select {
	case <-said:
	case <-time.After(sayGrace):
	}
}

// start starts the command, which takes the guard's place at its standard streams.
func (w *warden) start(argv []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopting what descendants leave behind: %w", err)
	}
	// Whoever started the guard may have had it killed at once, with nobody left to end
	// its descendants.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("ending with the parent: %w", err)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	leader, err := os.StartProcess(path, argv, &os.ProcAttr{ //nolint:gosec // running what it is told to is what a guard is for
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	w.leader = leader.Pid
	// Others must see when the command closes them.
	for _, stream := range []*os.File{os.Stdin, os.Stdout} {
		_ = stream.Close()
	}
	return leader.Release()
}

// reap takes note of all who die, adopted ones too.
func (w *warden) reap() {
	defer close(w.deaths)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			w.deaths <- death{pid, status}
		case syscall.EINTR:
		default:
			return // nobody is left
		}
	}
}

// watch ends the descendants when the command has ended, when it is told to, or when
// there are too many, and returns when they have ended.
func (w *warden) watch() {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	var busy activity
	for {
		select {
		case d, more := <-w.deaths:
			if !more {
				return
			}
			if d.pid == w.leader {
				w.ended(d.status)
			}
		case <-w.told:
			if w.grace == nil {
				w.grace = time.After(w.orders.grace)
				signalAll(syscall.SIGTERM)
			}
		case <-w.grace:
			w.kill()
		case <-w.killed:
			w.kill()
		case <-w.futile:
			return
		case <-look.C:
			if w.killed == nil && busy.changed() && len(descendants()) > w.processes {
				w.crowd = true
				w.kill()
			}
		}
	}
}

// ended notes how the command has ended. What it leaves behind has the grace of those who
// were told to end, or none.
func (w *warden) ended(status syscall.WaitStatus) {
	w.status = status.ExitStatus()
	if status.Signaled() {
		w.status = signalled + int(status.Signal())
	}
	if w.grace == nil {
		w.kill()
	}
}

// kill kills all descendants, and looks again soon: one that is killed may have had a
// child before.
func (w *warden) kill() {
	signalAll(syscall.SIGSTOP) // who is stopped has no more of them
	signalAll(syscall.SIGKILL)
	w.killed = time.After(killInterval)
	if w.futile == nil {
		w.futile = time.After(killGrace)
	}
}

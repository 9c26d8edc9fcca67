package procgroup

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// A process is a running process. The start time distinguishes it from a later process with the
// same id.
type process struct {
	pid       int
	parent    int
	startTime uint64 // in ticks of the kernel's clock
}

// processes returns all processes that are not hidden from this user.
func processes() (all []process) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readStat(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// descendants returns all processes below a process, parents before their children.
func descendants(pid int) []process {
	children := make(map[int][]process)
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	found := slices.Clone(children[pid])
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// readStat reads /proc/PID/stat: proc_pid_stat(5). Its second field is a name in parentheses
// that may contain any characters.
func readStat(pid int) (p process, ok bool) {
	var room [1024]byte // the line has at most 52 numbers and a short name
	stat := room[:readFile("/proc/"+strconv.Itoa(pid)+"/stat", room[:])]
	const parent, startTime = 1, 19 // after the name
	p.pid = pid
	field := 0
	for text := range bytes.FieldsSeq(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		var err error
		switch field {
		case parent:
			p.parent, err = strconv.Atoi(string(text))
		case startTime:
			p.startTime, err = strconv.ParseUint(string(text), 10, 64)
			return p, err == nil
		}
		if err != nil {
			return p, false
		}
		field++
	}
	return p, false
}

// readFile reads the beginning of a file of /proc, and returns its length. It needs half of the time of [os.ReadFile],
// which matters where a host has many processes.
func readFile(name string, room []byte) int {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	n, err := syscall.Read(fd, room)
	if err != nil {
		return 0
	}
	return n
}

// signal signals the process, and never a later one with the same id: os.FindProcess opens a
// pidfd where the kernel supports it, and the start time is compared after that.
func (p process) signal(s syscall.Signal) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	if now, ok := readStat(p.pid); ok && now.startTime == p.startTime {
		_ = handle.Signal(s) // fails only if the process has ended
	}
	_ = handle.Release()
}

const (
	// killInterval is the pause before looking for processes that were created while the known
	// ones were being killed.
	killInterval = 5 * time.Millisecond
	// killTimeout bounds the killing. A process that is left cannot be killed, such as one of
	// another user.
	killTimeout = 2 * time.Second
)

// killMarked kills all processes that have inherited the mark of a child, in whatever group or
// session they are, and their descendants. They have started at a time or later.
func killMarked(mark string, since uint64) {
	for deadline := time.Now().Add(killTimeout); ; <-time.After(killInterval) {
		found := marked(mark, since)
		if len(found) == 0 || time.Now().After(deadline) {
			return
		}
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // a stopped process creates no children
			for _, p := range found {
				p.signal(s)
			}
		}
	}
}

// marked returns the processes that have started at a time or later and whose environment contains a mark:
// proc_pid_environ(5). The environment of a process that has ended is empty.
func marked(mark string, since uint64) (found []process) {
	for _, p := range processes() {
		if p.startTime < since {
			continue
		}
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err == nil && bytes.Contains(environ, []byte(mark)) && p.pid != os.Getpid() {
			found = append(found, p)
		}
	}
	return found
}

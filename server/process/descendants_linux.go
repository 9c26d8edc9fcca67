package process

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A descendant is a process, told from a later one with the same id by when it began.
type descendant struct {
	pid    int
	parent int
	began  string // in ticks of the kernel's clock
}

// descendants returns all processes below this one, parents before their children.
func descendants() []descendant {
	folders, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folders.Close()
	names, err := folders.Readdirnames(-1)
	if err != nil {
		return nil
	}
	children := make(map[int][]descendant)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if d, ok := look(pid); ok {
				children[d.parent] = append(children[d.parent], d)
			}
		}
	}
	found := slices.Clone(children[os.Getpid()])
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// look reads who a process is from /proc/PID/stat: proc_pid_stat(5). Its second field is
// a name in parentheses that may hold anything.
func look(pid int) (descendant, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return descendant{}, false
	}
	const parent, began = 1, 19 // after the name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= began {
		return descendant{}, false
	}
	ppid, err := strconv.Atoi(fields[parent])
	return descendant{pid, ppid, fields[began]}, err == nil
}

// signalAll signals all descendants.
func signalAll(s syscall.Signal) {
	for _, d := range descendants() {
		d.signal(s)
	}
}

// signal signals a process, and no other one that has got its id meanwhile: what
// FindProcess returns stands for one process on Linux, if the kernel knows how.
func (d descendant) signal(s syscall.Signal) {
	p, err := os.FindProcess(d.pid)
	if err != nil {
		return
	}
	if now, ok := look(d.pid); ok && now.began == d.began {
		_ = p.Signal(s) // who is gone needs none
	}
	_ = p.Release() // it always succeeds
}

// activity tells whether processes have been started on this machine, which costs less
// than looking at them all.
type activity struct{ last string }

// changed reads the id that was given last: proc_loadavg(5).
func (a *activity) changed() bool {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return true
	}
	last := string(load[bytes.LastIndexByte(load, ' ')+1:])
	changed := last != a.last
	a.last = last
	return changed
}

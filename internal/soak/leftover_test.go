package soak

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// strays are processes that should not be: zombies, and servers whose bridge is gone.
func (k *killings) strays(t *testing.T) (strays []string) {
	far, bridge := k.far.pid(), k.bridge.pid()
	for _, pid := range k.books.processes(t) {
		state, parent := processState(pid)
		switch {
		case state == "" || pid == far:
		case state == "Z" && parent != bridge && parent != os.Getpid(): // whose parent is the system's
		case state != "Z" && parent == bridge:
		default:
			strays = append(strays, fmt.Sprintf("process %d, in state %s, of %d", pid, state, parent))
		}
	}
	return strays
}

// await waits until something is so.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
		<-time.After(10 * time.Millisecond) // other processes give no signal
	}
}

// settles waits until there is no more of something than there was.
func settles(t testing.TB, what string, count func() int, before int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for count() > before+5 && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	if now := count(); now > before+5 {
		t.Errorf("there are %d %s, there were %d", now, what, before)
	} else {
		t.Logf("%d %s before, %d after", before, what, now)
	}
}

func openDescriptors() int {
	descriptors, _ := os.ReadDir("/proc/self/fd")
	return len(descriptors)
}

// processState is the kernel's letter for the state of a process, "" of one that is not
// there, and its parent.
func processState(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	_, _ = fmt.Sscan(rest, &state, &parent)
	return state, parent
}

func kill(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer process.Release()
	return process.Kill()
}

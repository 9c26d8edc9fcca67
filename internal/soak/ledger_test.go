package soak

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A ledger is a directory in which processes note what they do before they do it: the
// kernel has the note whatever becomes of the process.
type ledger string

const (
	// ledgerVariable tells a process of its ledger.
	ledgerVariable = "SOAK_LEDGER"

	processNotes = "processes"
	callNotes    = "calls"
)

// begins notes that this process has begun.
func (l ledger) begins() error { return l.note(processNotes, strconv.Itoa(os.Getpid())) }

// executes notes that a call is executed.
func (l ledger) executes(nonce string) error { return l.note(callNotes, nonce) }

// note appends a line, by one write: such lines do not mix.
func (l ledger) note(in, line string) error {
	file, err := os.OpenFile(filepath.Join(string(l), in), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	return err
}

// processes are those that have begun.
func (l ledger) processes(t *testing.T) (pids []int) {
	t.Helper()
	for _, line := range l.lines(t, processNotes) {
		pid, err := strconv.Atoi(string(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// executed says how often each call was executed.
func (l ledger) executed(t *testing.T) map[string]int {
	t.Helper()
	times := make(map[string]int)
	for _, nonce := range l.lines(t, callNotes) {
		times[string(nonce)]++
	}
	return times
}

func (l ledger) lines(t *testing.T, in string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(l), in))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A ledger counts what happens, outside of the replicas. It is also the HTTP server where replicas
// execute calls.
//
// Lost is
//
//   - a call without an outcome, with a wrong answer, or with an answer although it was not executed;
//   - a call that has failed although no replica was killed in the meantime;
//   - an answered call of which an event is missing;
//   - a subscriber that does not hear of the last change.
//
// Doubled is a call that was executed twice, whatever its outcome, and an event that has
// arrived twice or out of order. A call that fails since its replica was killed is neither: its
// client knows that it may have been executed.
type ledger struct {
	mu                                          sync.Mutex
	calls                                       map[string]*callRecord
	executions                                  int
	answers, failures, questions, events, kills int
	lost, doubled, heard                        int
	outages                                     int       // in progress
	outage                                      time.Time // when the last one ended
}

type callRecord struct {
	executed int
	events   int // the number of the last one
}

func newLedger() *ledger { return &ledger{calls: make(map[string]*callRecord)} }

// record returns the record of a call. The caller holds mu.
func (l *ledger) record(call string) *callRecord {
	r := l.calls[call]
	if r == nil {
		r = new(callRecord)
		l.calls[call] = r
	}
	return r
}

// ServeHTTP executes the call in the path, or returns the number of executions.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		l.execute(strings.TrimPrefix(r.URL.Path, "/"))
	}
	fmt.Fprint(w, l.executed())
}

func (l *ledger) execute(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.executions++
	r := l.record(call)
	if r.executed++; r.executed > 1 {
		l.doubled++
		l.complain("call %s was executed %d times", call, r.executed)
	}
}

func (l *ledger) executed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.executions
}

func (l *ledger) complain(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "WRONG: "+format+"\n", arguments...)
}

// ask counts a question.
func (l *ledger) ask() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.questions++
}

// event counts an event of the stream of a call. Events have the numbers 1, 2, 3.
func (l *ledger) event(call string, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	r := l.record(call)
	switch {
	case number <= r.events:
		l.doubled++
		l.complain("call %s: event %d comes after event %d", call, number, r.events)
	case number > r.events+1:
		l.lost++
		l.complain("call %s: event %d comes after event %d", call, number, r.events)
	}
	r.events = max(r.events, number)
}

// answer counts the answer to a call that has a number of events.
func (l *ledger) answer(call, text string, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	if r := l.record(call); text != "done "+call || r.executed == 0 || r.events != events {
		l.lost++
		l.complain("call %s: answered with %q, executed %d times, %d events, want %d", call, text, r.executed, r.events, events)
	}
}

// fail counts a call that began at a time and has failed.
func (l *ledger) fail(call string, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	if l.outages == 0 && l.outage.Before(began) {
		l.lost++
		l.complain("call %s failed though no replica was killed: %v", call, err)
	}
}

// lose counts something that is lost.
func (l *ledger) lose(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
	l.complain(format, arguments...)
}

// hear counts a change that a subscriber was notified of.
func (l *ledger) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard++
}

// beginOutage counts a kill. end is called when there is another replica.
func (l *ledger) beginOutage() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kills++
	l.outages++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.outages--
		l.outage = time.Now()
	}
}

// progress returns what has happened so far.
func (l *ledger) progress() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.Itoa(l.answers) + " calls answered, " + strconv.Itoa(l.failures) + " failed"
}

// report prints the last line. It returns an error if something is lost or doubled.
func (l *ledger) report() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("calls %d answers %d failures %d questions %d events %d changes %d kills %d lost %d doubled %d\n",
		l.answers+l.failures, l.answers, l.failures, l.questions, l.events, l.heard, l.kills, l.lost, l.doubled)
	if l.lost+l.doubled > 0 {
		return errors.New("something was lost or doubled")
	}
	return nil
}

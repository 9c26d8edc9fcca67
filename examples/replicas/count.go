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

// A ledger counts what happens, outside of the replicas. It is also the web server where replicas
// execute calls.
//
// Lost is
//
//   - a call without an outcome, with a wrong answer, or with an answer although it was not executed;
//   - a call that has failed although no replica was killed while it ran;
//   - an answered call of which an event is missing;
//   - the last change, if a subscriber does not hear of it.
//
// Doubled is a call that was executed twice, whatever its outcome, and an event that has arrived
// twice or out of order. A call that fails because its replica was killed is neither: the error says
// that it may have been executed, and the client decides.
type ledger struct {
	mu       sync.Mutex
	calls    map[string]*callRecord
	executed int
	outages  int       // in progress
	outage   time.Time // when the last one ended

	answers, failures, questions, events, changes, kills, lost, doubled int
}

type callRecord struct {
	executed int
	events   int // the number of the last one
}

func newLedger() *ledger { return &ledger{calls: make(map[string]*callRecord)} }

// record returns the record of a call. The caller holds mu.
func (l *ledger) record(call string) *callRecord {
	if l.calls[call] == nil {
		l.calls[call] = new(callRecord)
	}
	return l.calls[call]
}

// ServeHTTP executes the call in the path, or returns the number of executions.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodPost {
		call := strings.TrimPrefix(r.URL.Path, "/")
		l.executed++
		l.record(call).executed++
		l.checkDoubled(l.record(call).executed > 1, "call %s was executed twice", call)
	}
	fmt.Fprint(w, l.executed)
}

// orders returns the number of executions.
func (l *ledger) orders() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.Itoa(l.executed)
}

func (l *ledger) checkDoubled(wrong bool, format string, arguments ...any) {
	if wrong {
		l.doubled++
		fmt.Fprintf(os.Stderr, "DOUBLED: "+format+"\n", arguments...)
	}
}

func (l *ledger) checkLost(wrong bool, format string, arguments ...any) {
	if wrong {
		l.lost++
		fmt.Fprintf(os.Stderr, "LOST: "+format+"\n", arguments...)
	}
}

// lose counts something that is lost.
func (l *ledger) lose(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkLost(true, format, arguments...)
}

// count increases one of the counters.
func (l *ledger) count(counter *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*counter++
}

// event counts an event of the stream of a call. The events have the numbers 1, 2, 3 and so on.
func (l *ledger) event(call string, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	r := l.record(call)
	l.checkDoubled(number <= r.events, "call %s: event %d comes after event %d", call, number, r.events)
	l.checkLost(number > r.events+1, "call %s: event %d comes after event %d", call, number, r.events)
	r.events = max(r.events, number)
}

// answer counts the answer to a call that has a number of events.
func (l *ledger) answer(call, text string, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	r := l.record(call)
	l.checkLost(text != "done "+call || r.executed == 0 || r.events != events,
		"call %s: the answer is %q, executed %d times, %d of %d events", call, text, r.executed, r.events, events)
}

// fail counts a call that began at a time and has failed.
func (l *ledger) fail(call string, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	l.checkLost(l.outages == 0 && l.outage.Before(began), "call %s fails, and no replica was killed: %v", call, err)
}

// beginOutage counts a kill. end is called when another replica has started.
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

// say prints what has been done, and what has happened so far.
func (l *ledger) say(done string, replica int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("%s replica %d: %d calls answered, %d failed, %d questions, %d events\n", done, replica+1, l.answers, l.failures, l.questions, l.events)
}

// report prints the last line. It returns an error if something is lost or doubled.
func (l *ledger) report() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("calls %d answers %d failures %d questions %d events %d changes %d kills %d lost %d doubled %d\n",
		l.answers+l.failures, l.answers, l.failures, l.questions, l.events, l.changes, l.kills, l.lost, l.doubled)
	if l.lost+l.doubled > 0 {
		return errors.New("something is lost or doubled")
	}
	return nil
}

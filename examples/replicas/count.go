package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
)

// A ledger counts what happens, outside of the replicas. It is also the web server where replicas
// execute calls.
//
// Lost is
//
//   - a call without an outcome, with a wrong answer, or with an answer although it was not executed;
//   - a call that has failed although its own replica was neither killed nor stopped while it ran;
//   - a call that has failed without saying whether it may have been executed, or that says so wrongly;
//   - an answered call of which a progress event is missing;
//   - an event that was acknowledged and does not reach a subscriber;
//   - the last change, if a subscriber does not hear of it.
//
// Doubled is a call that was executed more often than its tool permits, whatever its outcome, a call with
// two outcomes, and an event that has arrived twice or out of order. Unapproved is a call that was executed
// although nobody has approved it.
type ledger struct {
	mu       sync.Mutex
	calls    map[string]*callRecord
	executed int
	requests map[string][]work // of the call that a client makes now, by client
	outages  map[int]outage    // the last one, by replica

	answers, failures, refusals, tasks, approvals, questions, progress, changes, events, deliveries, kills, stops int

	lost, doubled, unapproved int
}

// A call is what a client wants to be executed.
type call struct {
	id, client    string
	restarts      int  // how often it may be executed again
	needsApproval bool // of a person
	isTask        bool // it has got the id of a task
}

type callRecord struct {
	call
	began      time.Time
	executions []work
	value      string // of Once
	approved   bool
	asked      string // the id of the request for an approval
	progress   int    // the number of the last event
}

// work is a request, or an execution, that a replica has got.
type work struct {
	replica int
	at      time.Time
}

// An outage is the time in which a replica is killed or stopped.
type outage struct {
	isNow bool
	ended time.Time
}

func newLedger() *ledger {
	return &ledger{calls: make(map[string]*callRecord), requests: make(map[string][]work), outages: make(map[int]outage)}
}

// begin records that a client makes a call. A client makes one call at a time.
func (l *ledger) begin(c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] == nil {
		l.calls[c.id] = new(callRecord)
	}
	l.calls[c.id].call, l.calls[c.id].began = c, time.Now()
	l.requests[c.client] = []work{}
}

// forward records that a replica gets a request of a client.
func (l *ledger) forward(client string, w work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests[client] != nil {
		l.requests[client] = append(l.requests[client], w)
	}
}

// ServeHTTP executes a call, or returns the number of executions. The path is the replica and the call.
// The query is the value of Once, if the call has one.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodPost {
		number, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		replica, err := strconv.Atoi(number)
		c := l.calls[id]
		if err != nil || c == nil {
			http.Error(w, "there is no such call", http.StatusBadRequest)
			return
		}
		l.executed++
		l.checkDoubled(len(c.executions) > 0 && c.value != r.URL.RawQuery, "call %s has two values of Once", id)
		c.value = r.URL.RawQuery
		c.executions = append(c.executions, work{replica, time.Now()})
		l.checkDoubled(len(c.executions) > 1+c.restarts, "call %s was executed %d times", id, len(c.executions))
		l.check(c.needsApproval && !c.approved, &l.unapproved, "UNAPPROVED", "call %s was executed", id)
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
	l.check(wrong, &l.doubled, "DOUBLED", format, arguments...)
}

func (l *ledger) checkLost(wrong bool, format string, arguments ...any) {
	l.check(wrong, &l.lost, "LOST", format, arguments...)
}

func (l *ledger) check(wrong bool, counter *int, name, format string, arguments ...any) {
	if wrong {
		*counter++
		fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format(time.TimeOnly+".000"), name, fmt.Sprintf(format, arguments...))
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

// advance counts an event of the progress of a call. The events have the numbers 1, 2, 3 and so on.
func (l *ledger) advance(id string, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	if c == nil {
		l.checkLost(true, "progress of the unknown call %q", id)
		return
	}
	l.progress++
	l.checkDoubled(number <= c.progress, "call %s: progress %d comes after %d", id, number, c.progress)
	l.checkLost(number > c.progress+1, "call %s: progress %d comes after %d", id, number, c.progress)
	c.progress = max(c.progress, number)
}

// approve records the decision of a person about a request. It is for one call, which has one request.
func (l *ledger) approve(id, request string, approved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	if c == nil {
		l.checkLost(true, "a person is asked about the unknown call %q", id)
		return
	}
	l.checkDoubled(c.asked != "" && c.asked != request, "a person is asked about the call %s in two requests", id)
	c.asked, c.approved = request, c.approved || approved
}

// answer counts the answer to a call that has a number of progress events.
func (l *ledger) answer(id, text string, progress int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	c := l.calls[id]
	l.checkLost(text != "done "+id || len(c.executions) == 0 || c.progress != progress,
		"call %s: the answer is %q, executed %d times, progress %d of %d", id, text, len(c.executions), c.progress, progress)
}

// refuse counts a call that a person has refused.
func (l *ledger) refuse(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
	l.checkLost(l.calls[id].approved, "call %s is refused, and was approved", id)
}

// fail counts a call that has failed.
func (l *ledger) fail(c call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	record := l.calls[c.id]
	l.checkLost(!l.isExcused(c), "call %s fails, and its replica was neither killed nor stopped: %v", c.id, err)
	_, fromTool := errors.AsType[*client.ToolError](err)
	mayBe := saysOneOf(err, "may have been executed", "may have been called", "was executed")
	not := saysOneOf(err, "not executed", "was not called", "try again later")
	l.checkLost(mayBe == not && (!fromTool || c.needsApproval), "call %s fails without a clear outcome: %v", c.id, err)
	l.checkLost(not && len(record.executions) > 0, "call %s was executed: %v", c.id, err)
}

func saysOneOf(err error, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// isExcused reports whether a replica was killed or stopped while it worked for a call. Those are the replicas
// that have executed it, since the call began, and those that have got requests of its client. For a task,
// requests only ask for its state; any replica may have begun a task that was not executed.
func (l *ledger) isExcused(c call) bool {
	record := l.calls[c.id]
	var replicas []work
	for _, execution := range record.executions {
		replicas = append(replicas, work{execution.replica, record.began}) // it may have been stopped before it
	}
	if !c.isTask {
		replicas = append(replicas, l.requests[c.client]...)
	}
	if c.isTask && len(replicas) == 0 {
		for replica := range l.outages {
			replicas = append(replicas, work{replica, record.began})
		}
	}
	return slices.ContainsFunc(replicas, func(w work) bool {
		last := l.outages[w.replica]
		return last.isNow || last.ended.After(w.at)
	})
}

// beginOutage counts a kill or a stop of a replica. end is called when the process has ended or continues.
func (l *ledger) beginOutage(replica int, counter *int) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*counter++
	l.outages[replica] = outage{isNow: true}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.outages[replica] = outage{ended: time.Now()}
	}
}

// say prints what has been done, and what has happened so far.
func (l *ledger) say(done string, replica int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("%s %s replica %d: %s\n", time.Now().Format(time.TimeOnly+".000"), done, replica+1, l.counts())
}

// hasEachLoad reports whether each load has begun, so that a fault meets all of them.
func (l *ledger) hasEachLoad() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.answers, l.tasks, l.approvals, l.questions, l.progress, l.changes, l.events, l.deliveries) > 0
}

func (l *ledger) counts() string {
	return fmt.Sprintf("calls %d answers %d failures %d tasks %d approvals %d refusals %d questions %d progress %d changes %d events %d deliveries %d "+
		"kills %d stops %d lost %d doubled %d unapproved %d",
		l.answers+l.failures+l.refusals, l.answers, l.failures, l.tasks, l.approvals, l.refusals, l.questions, l.progress, l.changes, l.events, l.deliveries,
		l.kills, l.stops, l.lost, l.doubled, l.unapproved)
}

// report prints the last line. It returns an error if something is lost, doubled or unapproved.
func (l *ledger) report() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Println(l.counts())
	if l.lost+l.doubled+l.unapproved > 0 {
		return errors.New("something is lost, doubled or unapproved")
	}
	return nil
}

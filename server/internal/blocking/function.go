package blocking

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A function is a function that has begun. It is the [mcp.Responder] of the call that the function gets.
type function struct {
	calls      *Calls
	key        key
	registered any       // as in [Calls.Run]
	first      *mcp.Call // the run that has begun it
	holder     quota.Holder
	ctx        context.Context
	cancel     context.CancelCauseFunc
	forget     *time.Timer // removes it after its end; protected by Calls.mu
	visits     int         // of runs at other replicas; protected by replicas.mu

	ended  chan struct{} // closed when result and err are set
	result mcp.Result
	err    error

	mu      sync.Mutex
	runs    []*mcp.Call                   // that wait, oldest first; the last one gets the notifications
	expiry  *time.Timer                   // runs while no run waits
	open    []*question                   // without an answer
	asked   []map[string]mcp.InputRequest // the questions of each round
	used    map[string]bool               // keys of questions
	changed chan struct{}                 // closed and replaced when a question is added
	stored  map[string]json.RawMessage
	done    []func()
	held    int64 // bytes that are counted
}

// A question is a question of the function. Its key differs from those of all other questions of the call.
type question struct {
	key      string
	request  mcp.InputRequest
	answered chan struct{} // closed when answer and err are set
	answer   json.RawMessage
	err      error
}

// run runs the function. It is the function's goroutine.
func (f *function) run(fn Function, call *mcp.Call) {
	var result mcp.Result
	err := errExited
	defer func() { f.end(result, err) }() // also after runtime.Goexit
	if call.TaskID() != "" {
		defer f.calls.config.Watch(f.ctx, f.first, func() { f.cancel(errTaskEnded) })()
	}
	result, err = fn(f.ctx, call)
	if _, asks := mcp.AsInputRequired(err); asks { // it would run again
		err = fmt.Errorf("the tool %q is blocking, and cannot return a question or become a task", f.key.tool)
	}
}

// errExited is the error of a function that has ended its goroutine.
var errExited = errors.New("the function of a blocking tool called runtime.Goexit")

// end sets the outcome, and keeps it if a client may ask for it again.
func (f *function) end(result mcp.Result, err error) {
	if cause := context.Cause(f.ctx); err != nil && cause != nil {
		f.calls.config.Logger.Info("a call of a blocking tool was interrupted", "tool", f.key.tool, "cause", cause, "error", err)
		err = Interrupted(cause)
	}
	var encoded mcp.Raw
	f.mu.Lock()
	keep := len(f.asked) > 0
	f.mu.Unlock()
	if keep {
		// Several runs may get it, and a middleware may change what it gets.
		var failed error
		if encoded, failed = encode(result); failed != nil {
			result, err = nil, cmp.Or(err, failed)
		} else if encoded != nil {
			result = encoded
		}
	}
	f.mu.Lock()
	f.result, f.err = result, err
	close(f.ended)
	if f.expiry != nil {
		f.expiry.Stop()
	}
	done, size := f.done, int64(keptMemory)
	for _, questions := range f.asked {
		size += sizeOf(questions)
	}
	f.mu.Unlock()
	f.cancel(nil)
	for _, fn := range done {
		f.calls.recovered(fn)
	}
	keep = keep && f.hold(size+2*int64(len(encoded)))
	if !keep {
		f.release()
	}
	f.calls.returned(f, keep)
}

// encode returns the JSON of a result.
func encode(result mcp.Result) (encoded mcp.Raw, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if result == nil {
		return nil, nil
	}
	return result.AppendJSON(nil)
}

func sizeOf(questions map[string]mcp.InputRequest) (size int64) {
	for key, request := range questions {
		size += questionMemory + int64(len(key)+len(request.Params))
	}
	return size
}

func (f *function) hasEnded() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// errEnded is the error of a question that is asked after the function has returned.
var errEnded = errors.New("the function of the blocking tool has returned")

// take counts bytes that the function keeps. The error says that there is no room, or that the function has ended.
func (f *function) take(size int64) error {
	if err := f.calls.config.Retained.Take(f.holder, size); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hasEnded() { // what it holds was counted at its end
		f.calls.config.Retained.Return(f.holder, size)
		return errEnded
	}
	f.held += size
	return nil
}

// hold counts size bytes instead of those that were counted before. It returns false if there is no room.
func (f *function) hold(size int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	retained := f.calls.config.Retained
	retained.Return(f.holder, f.held)
	f.held = 0
	if retained.Take(f.holder, size) != nil {
		return false
	}
	f.held = size
	return true
}

// release counts nothing any more.
func (f *function) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls.config.Retained.Return(f.holder, f.held)
	f.held = 0
}

// An outcome is the end of a run: a result, or questions and the number of rounds including theirs.
type outcome struct {
	result    mcp.Result
	questions map[string]mcp.InputRequest
	round     int
}

// errUnattended is the cause of the end of a run at another replica that no longer asks for its outcome. The function
// continues.
var errUnattended = errors.New("the other replica no longer asks for the outcome")

// wait waits for the outcome of a run that continues after a round, and gives the run's answers to the function. All
// runs of the same round have the same outcome. The run must be attached; wait detaches it.
func (f *function) wait(ctx context.Context, call *mcp.Call, round int) (outcome, error) {
	defer f.detach(call)
	call.OnDone(func() { f.interruptUnattached(errAbandoned) }) // also if the questions cannot be sent
	for {
		open, changed, later := f.state(round)
		if later != nil {
			return outcome{questions: later, round: round + 1}, nil
		}
		if f.hasEnded() {
			return outcome{result: f.result}, f.err
		}
		unanswered := make(map[string]mcp.InputRequest)
		for _, q := range open {
			answer, err := call.Input(q.key, q.request)
			if _, asks := mcp.AsInputRequired(err); asks {
				unanswered[q.key] = q.request
				continue
			}
			f.answer(q, answer, err)
		}
		if len(unanswered) > 0 {
			return f.ask(round, unanswered), nil
		}
		select {
		case <-changed:
		case <-f.ended:
		case <-ctx.Done():
			return f.interrupt(ctx, call)
		}
	}
}

// state returns the questions without an answer, and a channel that is closed when there are others. later are the
// questions of the round after the given one, nil if the function has not asked since.
func (f *function) state(round int) (open []*question, changed <-chan struct{}, later map[string]mcp.InputRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round < len(f.asked) {
		return nil, nil, f.asked[round]
	}
	return slices.Clone(f.open), f.changed, nil
}

// ask ends a run with questions. They are a new round, unless another run was faster, or all of them were asked before.
func (f *function) ask(round int, questions map[string]mcp.InputRequest) outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round < len(f.asked) {
		return outcome{questions: f.asked[round], round: round + 1}
	}
	again := round > 0
	for key := range questions {
		_, known := f.lastRound()[key]
		again = again && known
	}
	if !again {
		f.asked = append(f.asked, questions)
	}
	return outcome{questions: questions, round: len(f.asked)}
}

// lastRound returns the questions of the last round. The lock must be held.
func (f *function) lastRound() map[string]mcp.InputRequest {
	if len(f.asked) == 0 {
		return nil
	}
	return f.asked[len(f.asked)-1]
}

// answer gives the function an answer, unless another run has done so.
func (f *function) answer(q *question, answer json.RawMessage, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.open, q); i >= 0 {
		f.open = slices.Delete(f.open, i, i+1)
		q.answer, q.err = slices.Clone(answer), err
		close(q.answered)
	}
}

// interrupt ends a run whose context has ended, and the function unless another run waits for it.
func (f *function) interrupt(ctx context.Context, call *mcp.Call) (outcome, error) {
	cause := context.Cause(ctx)
	f.mu.Lock()
	f.runs = without(f.runs, call)
	last := len(f.runs) == 0 && !errors.Is(cause, errUnattended)
	if last {
		f.cancel(cause)
	}
	f.mu.Unlock()
	if !last {
		return outcome{}, cause
	}
	select {
	case <-f.ended:
		if f.err == nil {
			return outcome{result: f.result}, nil
		}
	case <-f.calls.replicas.ctx.Done(): // Stop does not wait longer
	}
	return outcome{}, cause
}

func without(runs []*mcp.Call, call *mcp.Call) []*mcp.Call {
	return slices.DeleteFunc(runs, func(other *mcp.Call) bool { return other == call })
}

// attach makes a run the one that gets the notifications.
func (f *function) attach(call *mcp.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, call)
	if f.expiry != nil {
		f.expiry.Stop()
	}
}

// detach ends a run. Without a run, the function waits for a limited time.
func (f *function) detach(call *mcp.Call) {
	f.mu.Lock()
	f.runs = without(f.runs, call)
	waits := len(f.runs) == 0 && !f.hasEnded()
	if waits {
		f.expiry = time.AfterFunc(WaitTimeout, func() { f.interruptUnattached(errTooLate) })
	}
	f.mu.Unlock()
	if waits && f.calls.isStopped() {
		f.interruptUnattached(errShutdown)
	}
}

// interruptUnattached interrupts the function unless a run waits for it.
func (f *function) interruptUnattached(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.runs) == 0 {
		f.cancel(cause)
	}
}

// attached returns the run that gets the notifications, nil if none waits.
func (f *function) attached() *mcp.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.runs) == 0 {
		return nil
	}
	return f.runs[len(f.runs)-1]
}

// Input implements [mcp.Responder]. It waits for the answer.
func (f *function) Input(key string, request mcp.InputRequest) (json.RawMessage, error) {
	if f.calls.isStopped() {
		return nil, errShutdown
	}
	if err := f.take(questionMemory + int64(len(request.Params))); err != nil {
		if errors.Is(err, errEnded) {
			return nil, err
		}
		return nil, errNoRoom
	}
	q := f.add(key, request)
	select {
	case <-q.answered:
	case <-f.ctx.Done():
		f.answer(q, nil, context.Cause(f.ctx))
		<-q.answered
	}
	return q.answer, q.err
}

// add adds a question. The second use of a key gets another one, since the function runs once.
func (f *function) add(key string, request mcp.InputRequest) *question {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := key
	for n := 2; f.used[own]; n++ {
		own = fmt.Sprintf("%s (%d)", key, n)
	}
	f.used[own] = true
	q := &question{key: own, request: request, answered: make(chan struct{})}
	f.open = append(f.open, q)
	close(f.changed)
	f.changed = make(chan struct{})
	return q
}

// Notify implements [mcp.Responder]. The notification is sent in the run that waits, and dropped if none does.
func (f *function) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	call := f.attached()
	if call == nil {
		return nil
	}
	switch p := params.(type) {
	case *mcp.ProgressParams:
		token := call.ProgressToken()
		if token == nil {
			return nil
		}
		own := *p
		own.ProgressToken = mcp.ProgressToken(token)
		params = &own
	case *mcp.LoggingMessageParams:
		wanted := call.Caller.LogLevel
		if wanted == "" || p.Level.Severity() < wanted.Severity() {
			return nil
		}
		encoded, err := p.AppendJSON(nil) // the first ones of another type would count as those of an earlier run
		if err != nil {
			return err
		}
		params = mcp.Raw(encoded)
	}
	return call.Notify(ctx, method, params)
}

// Load implements [mcp.Responder].
func (f *function) Load(key string) (value json.RawMessage, ok bool) {
	f.mu.Lock()
	value, ok = f.stored[key]
	f.mu.Unlock()
	if ok {
		return value, true
	}
	return f.first.Load(key)
}

// Store implements [mcp.Responder]. The function needs no other run; a task that begins again does.
func (f *function) Store(key string, value json.RawMessage) {
	f.mu.Lock()
	if f.stored == nil {
		f.stored = make(map[string]json.RawMessage)
	}
	f.stored[key] = value
	f.mu.Unlock()
	if call := f.attached(); call != nil && call.TaskID() != "" {
		call.Store(key, value)
	}
}

// ID implements [mcp.Responder].
func (f *function) ID() string { return f.key.call }

// OnDone implements [mcp.Responder]. The call has ended when the function has.
func (f *function) OnDone(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, fn)
}

// Detach implements [mcp.Responder].
func (f *function) Detach(retry time.Duration) {
	if call := f.attached(); call != nil {
		call.Detach(retry)
	}
}

// TaskID implements [mcp.Responder].
func (f *function) TaskID() string { return f.first.TaskID() }

func sortedKeys(questions map[string]mcp.InputRequest) []string {
	return slices.Sorted(maps.Keys(questions))
}

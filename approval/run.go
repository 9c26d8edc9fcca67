package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A run is one run of a call. It has exclusive use of the call's grant.
type run struct {
	guard *guard
	grant *grant
	call  *mcp.Call // with its own copy of the params

	executing bool
	ended     bool // the grant has ended
}

// invoke makes the call if it is approved in this run, or was in an earlier one.
func (r *run) invoke(ctx context.Context, next mcp.Handler) (mcp.Result, error) {
	changed := r.guard.newError(&r.grant.request.Target, Changed, Changed)
	changed.mayBeCalled = r.grant.approved
	if !r.grant.approved {
		if err := r.approve(ctx); err != nil {
			return nil, err
		}
	}
	r.executing = true
	if task.Postponed(ctx) { // a later run makes the call
		return nil, context.Cause(ctx)
	}
	r.call.FreezeArguments(changed)
	return next(context.WithValue(ctx, approvedKey{}, r.grant.request), r.call)
}

type approvedKey struct{}

// FromContext returns the request that was approved for the current call, or nil if there was
// none. In a call of a tool that calls others, such as run_script, it may be the approval of that tool: see [Request].Tool.
func FromContext(ctx context.Context) *Request {
	r, _ := ctx.Value(approvedKey{}).(*Request)
	return r
}

// approve gets an answer to the request, and records the approval. The error refuses the call,
// or is *mcp.InputRequired.
func (r *run) approve(ctx context.Context) error {
	g, request := r.guard, r.grant.request
	remembered := g.recall(ctx, request)
	if remembered != nil || waits(g.approver) {
		if err := r.persist(ctx); err != nil {
			return r.refuse(codeOf(err, Failed), err)
		}
	}
	answer, err := r.ask(ctx, remembered)
	if err != nil {
		if _, asks := mcp.AsInputRequired(err); asks || r.leave(ctx) {
			return err
		}
		return r.refuse(askCode(ctx, request, err), err)
	}
	answer.Remember = min(max(0, answer.Remember), g.opts.Remember)
	if !answer.Approved {
		_ = g.appendEntry(time.Now(), r.grant, eventRejected, answer) // appendEntry logs the error, and nothing runs
		g.forget(ctx, request)
		r.end()
		refused := g.refuse(&request.Target, Rejected, nil)
		refused.Reason = answer.Reason
		return refused
	}
	if err := r.recheck(ctx); err != nil {
		return r.refuse(codeOf(err, Failed), err)
	}
	approved := time.Now()
	if err := g.appendEntry(approved, r.grant, eventApproved, answer); err != nil {
		return r.refuse(Failed, err)
	}
	now := time.Now() // compared with the deadline, and recorded
	if !now.Before(request.Deadline) {
		return r.refuse(Expired, Expired)
	}
	if err := r.claim(ctx); err != nil {
		refused := r.refuse(codeOf(err, Failed), err)
		refused.mayBeCalled = true // by the run that has claimed it
		return refused
	}
	if err := g.appendEntry(now, r.grant, eventExecuting, Answer{}); err != nil {
		return r.refuse(Failed, err)
	}
	r.grant.approved = true
	if answer.Remember > 0 {
		g.remember(ctx, request, approved, answer)
	}
	return nil
}

// ask returns the remembered answer, if there is one. Otherwise it calls the approver and pauses the call's deadline until the
// answer.
func (r *run) ask(ctx context.Context, remembered *rememberedApproval) (a Answer, err error) {
	if remembered != nil {
		r.grant.remembered = remembered.Request
		return approve(ctx, r.guard.answerer(remembered), r.grant.request)
	}
	defer deadline.Pause(ctx)()
	if r.guard.approver == nil {
		return Answer{}, NoApprover
	}
	ctx, cancel := context.WithDeadlineCause(ctx, r.grant.request.Deadline, Expired)
	defer cancel()
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	if r.call.TaskID() != "" && waits(r.guard.approver) {
		r.describe(ctx, "waiting for approval")
		defer r.describe(ctx, "")
	}
	a, err = approve(ctx, r.guard.answerer(nil), r.grant.request)
	if errors.Is(err, ErrClosed) && r.guard.grants.stored(r.grant) != nil {
		<-ctx.Done()
		return Answer{}, context.Cause(ctx)
	}
	return a, err
}

// describe sets the status message of a call that runs as a task.
func (r *run) describe(ctx context.Context, message string) {
	_ = r.call.Notify(ctx, mcp.NotificationTasks, &mcp.Task{StatusMessage: message}) // the message decides nothing
}

// askCode returns the code of an approver's error.
func askCode(ctx context.Context, r *Request, err error) Code {
	code := codeOf(err, Failed)
	late := !time.Now().Before(r.Deadline)
	if code == Failed && late && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return Expired
	}
	return code
}

// recheck verifies that neither the tool nor the call has changed since the request.
func (r *run) recheck(ctx context.Context) error {
	request := r.grant.request
	if request.Digest() != r.grant.digest || !bytes.Equal(argumentsOf(r.call), request.Arguments) {
		return Changed
	}
	if !time.Now().Before(request.Deadline) {
		return Expired
	}
	if task.Postponed(ctx) {
		return nil // the next run compares the digests
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the caller disconnected: %w", context.Cause(ctx))
	}
	return safely("looking up the approved tool", func() error {
		err := r.call.Recheck(ctx)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return Errorf(Changed, "%s", wire.Message)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", Changed, err)
		}
		return nil
	})
}

// refuse ends the grant without a call in this run.
func (r *run) refuse(code Code, cause error) *Error {
	event := eventWithdrawn
	switch {
	case r.grant.approved:
		event = eventFailed
	case code == Expired:
		event = eventExpired
	}
	_ = r.guard.appendEntry(time.Now(), r.grant, event, Answer{Reason: cause.Error()}) // appendEntry logs the error, and nothing runs
	r.end()
	refused := r.guard.refuse(&r.grant.request.Target, code, cause)
	refused.mayBeCalled = r.grant.approved
	return refused
}

func (r *run) end() {
	r.guard.grants.end(r.grant)
	r.ended = true
}

// finish ends the grant, or keeps it for the next run if the call asks its caller, or if the function begins later. The
// error refuses the call.
func (r *run) finish(ctx context.Context, panicking bool, err error) error {
	if r.ended {
		return nil
	}
	g := r.guard
	if _, asks := mcp.AsInputRequired(err); asks && !panicking {
		return r.pause(ctx, r.pausedUntil())
	}
	if err != nil && r.leave(ctx) {
		return nil
	}
	event, reason := eventExecuted, ""
	switch {
	case !r.executing:
		event, reason = eventWithdrawn, "the call was not made"
	case panicking:
		event, reason = eventFailed, "panic"
	case err != nil:
		event, reason = eventFailed, err.Error()
	}
	_ = g.appendEntry(time.Now(), r.grant, event, Answer{Reason: reason}) // appendEntry logs the error; the call has been made
	r.end()
	return nil
}

// A grant is a request and its approval, from the first run of its call to the end of the
// last one.
type grant struct {
	request *Request // without its arguments between runs
	holder  quota.Holder
	digest  Digest // of the request, when the grant was opened
	id      callID
	key     string // of the resume token in the call

	// Used by the current run.
	remembered string // id of the request with the remembered approval; "" for none
	approved   bool   // the call has been executed, or is being executed
	runNumber  int    // from 1

	// Guarded by grants.mu.
	running bool                       // a run has the grant
	until   time.Time                  // deadline for the next run; set between runs
	stored  *state.Record[pausedGrant] // nil while it is not in the store
}

// A callID identifies a call of a tool.
type callID struct{ call, server, tool string }

// A resumeToken is the state that a call stores between its runs.
type resumeToken struct {
	Request string `json:"request"` // id of the request
	Run     int    `json:"run"`     // number of the last run
	Until   int64  `json:"until"`   // end of the time for the next run, in Unix milliseconds
}

func (t resumeToken) json() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"request":%q,"run":%d,"until":%d}`, t.Request, t.Run, t.Until))
}

// grants counts the open requests of a guard. A request that waits for the next run of its call is open too, at the
// replica that has paused it, until that replica knows that another one has continued it.
type grants struct {
	maxOpen, maxPerCaller int

	mu      sync.Mutex
	open    map[callID]*grant
	callers map[quota.Holder]int // number of open grants by caller
}

func newGrants(opts *Options) *grants {
	return &grants{
		maxOpen: opts.MaxOpen, maxPerCaller: opts.MaxPerCaller,
		open: make(map[callID]*grant), callers: make(map[quota.Holder]int),
	}
}

// begin adds a grant for its first run, or for the next run after it was stored.
func (s *grants) begin(g *grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.holder = g.request.holder()
	earlier := s.open[g.id]
	if earlier != nil && !earlier.running && g.runNumber > 0 {
		s.remove(earlier)
		earlier = nil
	}
	switch {
	case earlier != nil:
		return Spent
	case g.runNumber > 0: // it was counted before
	case len(s.open) >= s.maxOpen:
		return Errorf(TooMany, "at most %d requests may be open", s.maxOpen)
	case s.callers[g.holder] >= s.maxPerCaller:
		return Errorf(TooMany, "at most %d requests of one caller may be open", s.maxPerCaller)
	}
	g.running = true
	g.runNumber++
	s.open[g.id] = g
	s.callers[g.holder]++
	return nil
}

// pause ends a run. The next one may begin before until. The grant does not keep the arguments, which the next run has too.
func (s *grants) pause(g *grant, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.running, g.until = false, until
	g.request = &Request{ID: g.request.ID, Target: g.request.Target, Caller: g.request.Caller}
}

// setStored notes that a grant is in the store, or no longer with nil.
func (s *grants) setStored(g *grant, stored *state.Record[pausedGrant]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.stored = stored
}

// stored returns the record of a grant.
func (s *grants) stored(g *grant) *state.Record[pausedGrant] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.stored
}

// end removes a grant that a run has.
func (s *grants) end(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(g)
}

// endPaused removes a grant that no run has.
func (s *grants) endPaused(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !g.running {
		s.remove(g)
	}
}

func (s *grants) remove(g *grant) {
	if s.open[g.id] != g {
		return
	}
	delete(s.open, g.id)
	if s.callers[g.holder]--; s.callers[g.holder] == 0 {
		delete(s.callers, g.holder)
	}
}

// paused removes the grants that have waited too long for their next run. It returns the waiting grants whose removal
// makes room for a call of the caller.
func (s *grants) paused(caller quota.Holder, now time.Time) []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	onlyOwn := s.callers[caller] >= s.maxPerCaller
	var list []*grant
	for _, g := range s.open {
		switch {
		case g.running:
		case !now.Before(g.until):
			s.remove(g)
		case !onlyOwn || g.holder == caller:
			list = append(list, g)
		}
	}
	return list
}

package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// ErrCancelled is the cause of the end of a run's context when the client has cancelled the task.
var ErrCancelled = errors.New("the task was cancelled by its client")

// ErrExpired is the cause when the task has taken longer than its time to live.
var ErrExpired = errors.New("the task took longer than its time to live")

// Other causes of the end of a run's context.
var (
	errLost     = errors.New("another worker runs the task")
	errNotBegun = errors.New("it cannot be stored that the function of the task begins")
)

// An unsavedError is the cause when a value of the run finds no room in the store.
type unsavedError struct{ err error }

func (e *unsavedError) Error() string { return e.err.Error() }

// Interrupted reports whether ctx, of a run, has ended although its task has not: the call begins again,
// here or at another replica. It is false for the context of a call that is no task.
func Interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errStopped) || errors.Is(cause, errLost) || errors.Is(cause, errNotBegun)
}

// Postponed reports whether the run with the context ctx was interrupted before its function has begun: the function
// begins in a later run. It is false for the context of a call that is no task.
func Postponed(ctx context.Context) bool {
	r := RunOf(ctx)
	if r == nil || !Interrupted(ctx) {
		return false
	}
	r.beginning.Lock()
	defer r.beginning.Unlock()
	return !r.begun
}

// OutcomeLost says that an earlier run of the task may have made the call, and that the run with the context ctx does not make it
// again, since the outcome is lost. If this run fails, its task counts as abandoned. It has no effect in the first run of a task, and
// for the context of a call that is no task.
func OutcomeLost(ctx context.Context) {
	if r := RunOf(ctx); r != nil && r.repeated {
		r.outcomeLost.Store(true)
	}
}

// runKey is the key of the Run in its context.
type runKey struct{}

// RunOf returns the run that has the context ctx, or nil.
func RunOf(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}

// progressInterval is how often the progress of a run is stored, at most.
const progressInterval = 500 * time.Millisecond

// A Run is one run of the call of a task. Its methods may be called concurrently.
type Run struct {
	// ID identifies the task.
	ID string
	// Call is the Call of the [Spec]. State is the State of the [Spec], or the State that the last run has saved.
	Call, State json.RawMessage
	// Answers are the answers to the questions of the last run by key.
	Answers map[string]json.RawMessage

	engine   *Engine
	job      *store.Job
	round    int
	attempt  int                                  // in the record
	repeated bool                                 // it follows an attempt that has ended without an outcome
	known    atomic.Pointer[state.Record[record]] // as this run has read or written it last
	until    time.Time
	ctx      context.Context // has a deadline
	cancel   context.CancelCauseFunc
	overdue  chan error // has a value when the function should have ended

	outcomeLost atomic.Bool // of an earlier attempt; see [OutcomeLost]

	// These are guarded by Engine.mu.
	holder  quota.Holder
	counted bool // among the runs of the holder

	beginning sync.Mutex
	begun     bool // the function
	room      part // for the outcome; without chunks if there is none

	mu        sync.Mutex
	message   string
	described bool // message is set
	progress  *Progress
	unsaved   bool          // the progress is not stored
	wake      chan struct{} // has a value when the record must be read or written
}

// TimeOut says that the function of the call should have ended because of cause. It does not end the context of the
// run, in which the outcome of the function may still be stored. Only the first call has an effect.
func (r *Run) TimeOut(cause error) {
	select {
	case r.overdue <- cause:
	default:
	}
}

// Report sets the message of the task, of which 4 KiB are kept, and the progress unless it is nil. It does not block;
// both are stored within half a second, and the last ones count.
func (r *Run) Report(message string, progress *Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.message, r.described, r.unsaved = peertext.Cut(message, maxMessage), true, true
	if progress != nil {
		r.progress = progress
	}
	r.wakeUp()
}

// reported sets the last progress in the record, unless the task has failed.
func (r *Run) reported(rec *record) {
	if rec.Unknown {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.described {
		rec.Message = r.message
	}
	if r.progress != nil {
		rec.Progress = r.progress
	}
}

// store stores the progress, and cancels the run if the task was cancelled. After an error of the store, it is
// called again.
func (r *Run) store() {
	r.mu.Lock()
	unsaved := r.unsaved
	r.unsaved = false
	r.mu.Unlock()
	ctx := context.Background()
	rec, err := r.update(ctx, r.reported)
	switch {
	case errors.Is(err, errLost):
	case err != nil:
		r.mu.Lock()
		r.unsaved = r.unsaved || unsaved
		r.mu.Unlock()
		r.wakeUp() // it is tried again
	case rec.Cancelled:
		r.cancel(ErrCancelled)
	case unsaved:
		r.engine.changed(ctx, r.ID, rec)
	}
}

// wakeUp makes the run store its progress, and check whether the task was cancelled.
func (r *Run) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Begin records that the function of the call begins, and how often it may begin again, and reserves room in the store
// for its outcome. A function that must not be executed twice begins after it only. After an error, the function must
// not be executed: the context of the run ends, and the job is handed back. Later calls do nothing.
func (r *Run) Begin(ctx context.Context, maxRestarts int) error {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	switch {
	case r.begun:
		return nil
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	}
	room, err := r.engine.writeChunks(ctx, r.ID, "room for the outcome", make([]byte, outcomeRoom), r.until)
	var rec *record
	if err == nil {
		rec, err = r.update(ctx, func(rec *record) {
			if !rec.Cancelled {
				rec.Begun, rec.MaxRestarts, rec.Room = true, maxRestarts, room
			}
		})
	}
	switch {
	case err == nil && rec.Cancelled:
		r.cancel(ErrCancelled)
	case err == nil:
		r.begun, r.room = true, room
		return nil
	case ctx.Err() == nil && !errors.Is(err, errLost):
		r.engine.config.Logger.Warn("the function of a task does not begin, since that cannot be stored; it is tried again", "error", err)
	}
	r.cancel(errNotBegun) // unless there is another cause
	_ = r.engine.drop(ctx, r.ID, room)
	return context.Cause(r.ctx)
}

// Save stores the state for a run that begins again. While the store cannot be reached, it waits until ctx ends. If
// there is no room for the state, the context of the run ends and the task fails, since what follows must not be executed
// without it.
func (r *Run) Save(ctx context.Context, state json.RawMessage) {
	var pause backoff.Backoff
	for {
		err := r.save(ctx, state)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, errLost):
			return
		case noRoom(err), errors.Is(err, ErrUnknown):
			r.cancel(&unsavedError{fmt.Errorf("the values of the call with %d bytes cannot be stored: %w", len(state), err)})
			return
		}
		r.engine.config.Logger.Warn("a value of a task cannot be stored; it is tried again", "error", err)
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// noRoom reports whether err says that a value is too large, or that the store is full.
func noRoom(err error) bool {
	_, tooLarge := errors.AsType[*SizeError](err)
	return tooLarge || errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrFull)
}

func (r *Run) save(ctx context.Context, state json.RawMessage) error {
	written, err := r.engine.write(ctx, r.ID, "state", state, r.until)
	if err != nil {
		return err
	}
	rec, err := r.update(ctx, func(rec *record) {
		if !rec.Unknown {
			rec.State = written
		}
	})
	switch {
	case err == nil, errors.Is(err, errLost):
		r.engine.dropExcept(ctx, r.ID, []part{written}, rec.parts())
	case noRoom(err): // after another error, the record may name it
		_ = r.engine.drop(ctx, r.ID, written)
	}
	return err
}

// update changes the record if it still belongs to this run. Otherwise update ends the context of the run, and returns
// errLost with the record. update takes at most operationTimeout.
func (r *Run) update(ctx context.Context, change func(rec *record)) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	lost := false
	stored, err := r.engine.updateFrom(ctx, r.ID, r.known.Load(), func(rec *record) bool {
		lost = !r.owns(rec)
		if !lost {
			change(rec)
		}
		return !lost
	})
	if err != nil {
		return nil, err
	}
	r.known.Store(stored)
	if lost {
		err = errLost
		r.cancel(errLost)
	}
	return &stored.Value, err
}

// owns reports whether the record waits for the outcome of this run.
func (r *Run) owns(rec *record) bool {
	return rec.Attempt == r.attempt && rec.Started == r.round && rec.Round == r.round && (rec.Status == mcp.TaskWorking || rec.Unknown)
}

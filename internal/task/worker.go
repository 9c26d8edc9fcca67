package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// minExtend is the shortest time between two extensions of a lease.
	minExtend = 100 * time.Millisecond
	// retryExtend is when a lease is extended again after a failure.
	retryExtend = time.Second
	// minPatience is how long an attempt whose lease has ended may be silent, at least; see [record.claim].
	minPatience = 2 * time.Second
	// retryDelay is when a job is delivered again that was handed back, at first. The delay grows up to
	// maxRetryDelay. If the workers of a principal are busy, it is busyDelay.
	retryDelay    = time.Second
	maxRetryDelay = time.Minute
	busyDelay     = 2 * time.Second
	// maxSealed is how often a job is delivered whose record cannot be opened.
	maxSealed = 100
	// abandonAfter is how long a function may run after the end of its context, or after its timeout. Then its
	// worker goes on without it.
	abandonAfter = time.Minute
	// unlimited is the timeout of a deadline that does not end a run.
	unlimited = time.Duration(math.MaxInt64)
)

// work does one job.
func (e *Engine) work(pulled *store.Job) {
	var j job
	if err := json.Unmarshal(pulled.Data, &j); err != nil {
		e.config.Logger.Error("a job of the queue of tasks is malformed", "error", err)
		e.worker.Finish(pulled)
		return
	}
	ctx, cancel := context.WithCancelCause(e.working)
	defer cancel(nil)
	ctx, end := deadline.With(ctx, unlimited, nil) // so that Drain sees whether the call waits for a person
	defer end()
	r := &Run{ID: j.ID, engine: e, job: pulled, round: j.Round, ctx: ctx, cancel: cancel, overdue: make(chan error, 1), wake: make(chan struct{}, 1)}
	e.register(r) // before the record says that the task runs, so that no cancellation is missed
	defer e.unregister(r)
	if !r.begin(ctx) {
		return
	}
	ctx, stop := context.WithDeadlineCause(ctx, r.until, ErrExpired)
	defer stop()
	var keeping sync.WaitGroup
	finished := make(chan struct{})
	keeping.Go(func() { r.keep(finished) })
	outcome := r.call(ctx)
	r.finish(context.Cause(ctx), &outcome)
	close(finished)
	keeping.Wait()
}

// call runs the call.
func (r *Run) call(ctx context.Context) Outcome {
	e := r.engine
	returned := make(chan Outcome, 1)
	e.background.Go(func() { returned <- e.config.Run(context.WithValue(ctx, runKey{}, r), r) })
	var cause error
	select {
	case outcome := <-returned:
		return outcome
	case cause = <-r.overdue:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	select {
	case outcome := <-returned:
		return outcome
	case <-time.After(abandonAfter):
		e.counts.abandoned.Add(1)
		message := fmt.Sprintf("the call may have been executed: its function still runs %v after the end of its context: %v", abandonAfter, cause)
		e.config.Logger.Error("the function of a task does not end with its context", "cause", cause)
		return Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: message}}
	}
}

func (e *Engine) register(r *Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[r] = struct{}{}
	if e.stopped {
		deadline.EndPaused(r.ctx, errStopped)
	}
}

func (e *Engine) unregister(r *Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, r)
}

// begin claims the job and reads what the call needs. It returns false if there is nothing to run.
func (r *Run) begin(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
	defer cancel()
	e, log := r.engine, r.engine.config.Logger
	var claimed claim
	busy := false
	stored, err := e.updateFrom(ctx, r.ID, nil, func(rec *record) bool {
		if busy = !e.takeShare(r, rec.holder()); busy {
			return false
		}
		claimed = rec.claim(r.round)
		return claimed != obsolete
	})
	sealed := errors.Is(err, errSealed)
	var rec *record
	if err == nil {
		rec = &stored.Value
		r.known.Store(stored)
	}
	switch {
	case errors.Is(err, ErrUnknown) && !sealed:
		e.worker.Finish(r.job)
	case sealed && r.job.Attempt >= maxSealed:
		log.Error("a task is given up, since no replica has its key", "error", err)
		e.worker.Finish(r.job)
	case err != nil:
		log.Warn("a task cannot begin here; it is tried again", "error", err)
		e.worker.HandBack(r.job, delay(r.job.Attempt))
	case busy:
		e.worker.HandBack(r.job, busyDelay)
	case claimed == waits:
		e.counts.lapsed.Add(1)
		e.worker.HandBack(r.job, max(r.job.HeldFor*2/3, minPatience))
	case claimed == ended:
		if rec.Status == mcp.TaskFailed {
			e.noteAbandoned(rec.Message)
		}
		e.changed(ctx, r.ID, rec)
		e.worker.Finish(r.job)
	case claimed == obsolete:
		if rec.Status.Ended() {
			e.changed(ctx, r.ID, rec) // the run that has ended it may not have known
		}
		e.worker.Finish(r.job)
	default:
		r.attempt, r.until, r.repeated = rec.Attempt, rec.until(), rec.Restarts+rec.Vanished+rec.HandedBack > 0
		e.kept.know(r.ID, rec)
		if err := r.read(context.WithoutCancel(ctx), rec); err != nil {
			log.Warn("a task cannot begin here; it is tried again", "error", err)
			r.handBack()
			return false
		}
		e.counts.attempts.Add(1)
		if r.repeated {
			e.counts.repeated.Add(1)
		}
		return true
	}
	return false
}

// delay returns when a job is delivered again that was handed back several times.
func delay(times int) time.Duration { return min(time.Duration(times)*retryDelay, maxRetryDelay) }

// takeShare counts a run among the runs of a client. It returns false if the client would take more than its
// share of the workers.
func (e *Engine) takeShare(r *Run, h quota.Holder) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := 0
	for other := range e.running {
		if other != r && other.counted && other.holder == h {
			taken++
		}
	}
	if taken >= e.share() {
		return false
	}
	r.holder, r.counted = h, true
	return true
}

// read reads what the call needs.
func (r *Run) read(ctx context.Context, rec *record) (err error) {
	e := r.engine
	if r.Call, err = e.read(ctx, r.ID, &rec.Call); err != nil {
		return err
	}
	if r.State, err = e.read(ctx, r.ID, &rec.State); err != nil {
		return err
	}
	r.Answers = make(map[string]json.RawMessage, len(rec.Answers))
	for key, answer := range rec.Answers {
		if r.Answers[key], err = e.read(ctx, r.ID, &answer); err != nil {
			return err
		}
	}
	return nil
}

// noteAbandoned counts and logs a task that has failed without the outcome of its function.
func (e *Engine) noteAbandoned(message string) {
	e.counts.abandoned.Add(1)
	e.config.Logger.Error("a task has ended without an outcome", "message", message)
}

// handBack records that the run ends without an outcome, and returns the job to the queue.
func (r *Run) handBack() {
	ctx, e := context.Background(), r.engine
	r.beginning.Lock()
	begun := r.begun
	r.beginning.Unlock()
	rec, err := r.update(ctx, func(rec *record) { rec.handBack(begun) })
	switch {
	case errors.Is(err, errLost): // the job belongs to another worker
	case err != nil:
		e.config.Logger.Warn("it cannot be stored that a run of a task has ended", "error", err)
		e.worker.HandBack(r.job, delay(r.job.Attempt))
	case rec.Status.Ended():
		if rec.Status == mcp.TaskFailed {
			e.noteAbandoned(rec.Message)
		}
		e.changed(ctx, r.ID, rec)
		e.worker.Finish(r.job)
	case e.pulling.Err() != nil: // this replica does not take the job again
		e.worker.HandBack(r.job, 0)
	default:
		e.worker.HandBack(r.job, delay(max(1, rec.HandedBack+rec.Restarts)))
	}
}

// keep extends the lease of the job and stores progress until the run has finished.
func (r *Run) keep(finished <-chan struct{}) {
	interval := max(r.job.HeldFor/3, minExtend)
	extend := time.NewTimer(interval)
	defer extend.Stop()
	var pause <-chan time.Time // after progress was stored
	wake := r.wake
	for {
		select {
		case <-extend.C:
			if r.extend() {
				extend.Reset(interval)
			} else {
				extend.Reset(min(interval, retryExtend))
			}
		case <-wake:
			r.store()
			wake, pause = nil, time.After(progressInterval)
		case <-pause:
			wake, pause = r.wake, nil
		case <-finished:
			return
		}
	}
}

// extend extends the lease of the job, and returns false if the store fails. If the lease has ended, the run goes
// on until another worker begins the task. extend also cancels the run if the task was cancelled, since the
// message about that may have been lost.
func (r *Run) extend() bool {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	if err := r.engine.config.Store.Extend(ctx, r.job); err != nil && !errors.Is(err, store.ErrLost) {
		return false
	}
	rec, err := r.engine.load(ctx, r.ID)
	switch {
	case err != nil:
		return errors.Is(err, ErrUnknown)
	case !r.owns(rec):
		r.cancel(errLost)
		return true
	case rec.Cancelled:
		r.cancel(ErrCancelled)
	}
	if rec.Lapsed {
		_, err = r.update(ctx, func(rec *record) { rec.Lapsed = false })
	}
	return err == nil || errors.Is(err, errLost)
}

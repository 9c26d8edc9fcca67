package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
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
	errNotSaved = errors.New("a value of the task could not be stored")
)

// Interrupted reports whether ctx, of a run, has ended although its task has not: the call begins again,
// here or at another replica. It is false for the context of a call that is no task.
func Interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errStopped) || errors.Is(cause, errLost) || errors.Is(cause, errNotSaved)
}

const (
	// progressInterval is how often the progress of a run is stored, at most.
	progressInterval = 500 * time.Millisecond
	// minExtend is the shortest time between two extensions of a lease.
	minExtend = 100 * time.Millisecond
	// retryDelay is when a job is delivered again that could not be done because of the store.
	retryDelay = time.Second
	// maxRetryDelay bounds the growing delay of a job if this replica cannot open its task.
	maxRetryDelay = time.Minute
	// unlimited is the timeout of a deadline that does not end a run.
	unlimited = time.Duration(math.MaxInt64)
)

// A Run is one run of the call of a task. Its methods may be called concurrently.
type Run struct {
	// ID identifies the task.
	ID string
	// Call and State are those of the [Spec], or the State that the last run has saved.
	Call, State json.RawMessage
	// Answers are the answers to the questions of the last run by key.
	Answers map[string]json.RawMessage

	engine *Engine
	job    *store.Job
	round  int
	until  time.Time
	ctx    context.Context // has a deadline
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	message   string
	described bool // message is set
	progress  *Progress
	unsaved   bool          // the progress is not stored
	wake      chan struct{} // has a value when the record must be read or written
}

// An Outcome is how a run has ended: exactly one of the fields is set.
type Outcome struct {
	// Result is the result of the call. Failed says that it reports a failure of the tool.
	Result json.RawMessage
	Failed bool
	// Error is the JSON-RPC error of the call, and Message describes it.
	Error *jsonrpc.Error
	// Questions are asked, and the next run gets State.
	Questions map[string]mcp.InputRequest
	State     json.RawMessage
	// NotExecuted says that nothing of the call was executed. Another replica may run it.
	NotExecuted bool
	// Again says that the call begins again, at another replica, unless it must not run twice.
	Again bool
}

// Report sets the message and, unless it is nil, the progress of the task. It does not block; both are stored
// within half a second, and the last ones count.
func (r *Run) Report(message string, progress *Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.message, r.described, r.unsaved = message, true, true
	if progress != nil {
		r.progress = progress
	}
	r.wakeUp()
}

// reported sets the last progress in the record.
func (r *Run) reported(rec *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.described {
		rec.Message = r.message
	}
	if r.progress != nil {
		rec.Progress = r.progress
	}
}

// wakeUp makes the run store its progress, and check whether the task was cancelled.
func (r *Run) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Save stores the state for a run that begins again. If that fails, the context of the run ends, so that
// what follows is not executed without it.
func (r *Run) Save(ctx context.Context, state json.RawMessage) {
	err := r.save(ctx, state)
	if err == nil || ctx.Err() != nil {
		return
	}
	r.engine.config.Logger.Warn("a value of a task cannot be stored; the call begins again", "error", err)
	r.cancel(errNotSaved)
}

func (r *Run) save(ctx context.Context, state json.RawMessage) error {
	written, err := r.engine.write(ctx, r.ID, "state", state, r.until)
	if err != nil {
		return err
	}
	var old part
	_, err = r.update(ctx, func(rec *record) { old, rec.State = rec.State, written })
	if err == nil {
		r.engine.drop(ctx, r.ID, old)
	}
	return err
}

// update changes the record if it is still that of this run.
func (r *Run) update(ctx context.Context, change func(rec *record)) (*record, error) {
	lost := false
	rec, err := r.engine.update(ctx, r.ID, func(rec *record) bool {
		lost = rec.Status != mcp.TaskWorking || rec.Started != r.round || rec.Round != r.round || rec.Attempt != r.job.Attempt
		if !lost {
			change(rec)
		}
		return !lost
	})
	if err == nil && lost {
		err = errLost
	}
	return rec, err
}

// pull takes jobs and runs them until the engine stops. Config.Max jobs run at the same time.
func (e *Engine) pull() {
	free := make(chan struct{}, e.config.Max)
	var pause backoff.Backoff
	for {
		select {
		case free <- struct{}{}:
		case <-e.pulling.Done():
			return
		}
		pulled, err := e.config.Store.Pull(e.pulling, queueName)
		if err == nil {
			pause.Reset()
			e.background.Go(func() {
				defer func() { <-free }()
				e.work(pulled)
			})
			continue
		}
		<-free
		if e.pulling.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		e.config.Logger.Warn("tasks cannot be taken from the queue; it is tried again", "error", err)
		if pause.Wait(e.pulling) != nil {
			return
		}
	}
}

// work does one job.
func (e *Engine) work(pulled *store.Job) {
	var j job
	if err := json.Unmarshal(pulled.Data, &j); err != nil {
		e.config.Logger.Error("a job of the queue of tasks is malformed", "error", err)
		e.ack(pulled)
		return
	}
	ctx, cancel := context.WithCancelCause(e.working)
	defer cancel(nil)
	ctx, end := deadline.With(ctx, unlimited, nil) // so that Drain sees whether the call waits for a person
	defer end()
	r := &Run{ID: j.ID, engine: e, job: pulled, round: j.Round, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
	e.register(r) // before the record says that the task runs, so that no cancellation is missed
	defer e.unregister(r)
	runs, err := r.begin(ctx)
	switch {
	case errors.Is(err, errSealed):
		e.config.Logger.Warn("a task is left to replicas that have its key", "error", err)
		e.nak(pulled, min(time.Duration(pulled.Attempt)*retryDelay, maxRetryDelay))
		return
	case errors.Is(err, ErrUnknown) || err == nil && !runs:
		e.ack(pulled)
		return
	case err != nil:
		e.config.Logger.Warn("a task cannot begin; it is tried again", "error", err)
		e.nak(pulled, retryDelay)
		return
	}
	ctx, stop := context.WithDeadlineCause(ctx, r.until, ErrExpired)
	defer stop()
	var keeping sync.WaitGroup
	ended := make(chan struct{})
	keeping.Go(func() { r.keep(ctx, ended) })
	outcome := e.config.Run(ctx, r)
	close(ended)
	keeping.Wait()
	r.finish(context.Cause(ctx), &outcome)
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

func (e *Engine) ack(job *store.Job) {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	_ = e.config.Store.Ack(ctx, job) // otherwise the job is delivered again, and the record says that it is done
}

func (e *Engine) nak(job *store.Job, delay time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	_ = e.config.Store.Nak(ctx, job, delay) // otherwise the job is delivered again when its lease ends
}

// begin records that the run begins. It returns false if there is nothing to run.
func (r *Run) begin(ctx context.Context) (runs bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
	defer cancel()
	e := r.engine
	rec, err := e.update(ctx, r.ID, func(rec *record) bool {
		again := rec.Started == r.round && r.job.Attempt > 1
		runs = rec.Status == mcp.TaskWorking && rec.Round == r.round && (rec.Started < r.round || again)
		switch {
		case !runs:
			return false
		case rec.Cancelled:
			runs = false
			rec.end(mcp.TaskCancelled, cancelledMessage)
		case again && rec.NoRestart:
			runs = false
			rec.end(mcp.TaskFailed, errNotRestarted.Message)
			rec.Error = encodeError(errNotRestarted)
		}
		rec.Started, rec.Attempt = r.round, r.job.Attempt
		return true
	})
	if err != nil {
		return false, err
	}
	if !runs {
		if rec.Status.Ended() {
			e.changed(ctx, r.ID, rec)
		}
		return false, nil
	}
	r.until = rec.until()
	if err := r.read(ctx, rec); err != nil {
		r.undo()
		return false, err
	}
	return true, nil
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

// undo records that the run has not begun, since its call was not executed. A task that must not run twice
// can then begin again.
func (r *Run) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	_, err := r.update(ctx, func(rec *record) { rec.Started = r.round - 1 })
	if err != nil && !errors.Is(err, errLost) && !errors.Is(err, ErrUnknown) {
		r.engine.config.Logger.Warn("it cannot be stored that a task has not begun", "error", err)
	}
}

var errNotRestarted = &jsonrpc.Error{
	Code:    jsonrpc.InternalError,
	Message: "the server that ran the task has ended, and the tool must not run twice: the call may have been executed in part",
}

func encodeError(err *jsonrpc.Error) json.RawMessage {
	out := jsonscan.AppendString(fmt.Appendf(nil, `{"code":%d,"message":`, err.Code), err.Message)
	if jsonscan.Valid(err.Data) == nil {
		out = append(append(out, `,"data":`...), err.Data...)
	}
	return append(out, '}')
}

// keep extends the lease of the job and stores progress until the run has ended.
func (r *Run) keep(ctx context.Context, ended <-chan struct{}) {
	extend := time.NewTicker(max(r.job.HeldFor/3, minExtend))
	defer extend.Stop()
	var pause <-chan time.Time // after progress was stored
	wake := r.wake
	for {
		select {
		case <-extend.C:
			r.extend(ctx)
		case <-wake:
			r.store(ctx)
			wake, pause = nil, time.After(progressInterval)
		case <-pause:
			wake, pause = r.wake, nil
		case <-ended:
			return
		}
	}
}

// extend extends the lease of the job. It also cancels the run if the task was cancelled, since the message
// about that may have been lost.
func (r *Run) extend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
	defer cancel()
	if err := r.engine.config.Store.Extend(ctx, r.job); errors.Is(err, store.ErrLost) {
		r.cancel(errLost)
		return
	}
	if rec, _, err := r.engine.load(ctx, r.ID); err == nil && rec.Cancelled {
		r.cancel(ErrCancelled)
	}
}

// store stores the progress, and cancels the run if the task was cancelled. After an error of the store, it is
// called again.
func (r *Run) store(ctx context.Context) {
	r.mu.Lock()
	unsaved := r.unsaved
	r.unsaved = false
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
	defer cancel()
	rec, err := r.update(ctx, r.reported)
	switch {
	case errors.Is(err, errLost):
		r.cancel(errLost)
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

// finish stores the outcome of a run. cause is why the context of the run has ended, or nil.
func (r *Run) finish(cause error, outcome *Outcome) {
	e := r.engine
	incomplete := outcome.Error != nil || outcome.Failed || outcome.Questions != nil
	switch {
	case errors.Is(cause, errLost):
		return // the job is that of another worker
	case outcome.NotExecuted:
		r.undo()
		e.nak(r.job, 0)
		return
	case outcome.Again, errors.Is(cause, errNotSaved), errors.Is(cause, errStopped) && incomplete:
		e.nak(r.job, 0)
		return
	case errors.Is(cause, ErrExpired) && incomplete:
		*outcome = Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: ErrExpired.Error()}}
	}
	// The outcome must be stored, and the store may be down for some time.
	ctx, cancel := context.WithTimeout(context.Background(), max(r.job.HeldFor/2, operationTimeout))
	defer cancel()
	var pause backoff.Backoff
	for {
		err := r.conclude(ctx, errors.Is(cause, ErrCancelled) && incomplete, outcome)
		var size *SizeError
		switch {
		case err == nil:
			e.ack(r.job)
			return
		case errors.Is(err, errSealed):
			e.nak(r.job, retryDelay)
			return
		case errors.Is(err, errLost), errors.Is(err, ErrUnknown):
			e.ack(r.job) // the task has ended
			return
		case errors.As(err, &size), errors.Is(err, store.ErrTooLarge):
			*outcome = Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}}
			continue
		}
		e.config.Logger.Warn("the outcome of a task cannot be stored; it is tried again", "error", err)
		if pause.Wait(ctx) != nil {
			return // the job is delivered again when its lease ends
		}
	}
}

// conclude stores the outcome.
func (r *Run) conclude(ctx context.Context, cancelled bool, outcome *Outcome) error {
	e := r.engine
	var result, state part
	var err error
	switch {
	case cancelled:
	case outcome.Questions != nil:
		if err := checkQuestions(outcome.Questions); err != nil {
			return err
		}
		state, err = e.write(ctx, r.ID, "state", outcome.State, r.until)
	case outcome.Error == nil:
		result, err = e.write(ctx, r.ID, "result", outcome.Result, r.until)
	}
	if err != nil {
		return err
	}
	var old part
	rec, err := r.update(ctx, func(rec *record) {
		r.reported(rec)
		switch {
		case cancelled, outcome.Questions != nil && rec.Cancelled:
			rec.end(mcp.TaskCancelled, cancelledMessage)
		case outcome.Questions != nil:
			old, rec.State = rec.State, state
			rec.Status, rec.Questions, rec.Answers = mcp.TaskInputRequired, outcome.Questions, nil
		case outcome.Error != nil:
			rec.end(mcp.TaskFailed, outcome.Error.Message)
			rec.Error = encodeError(outcome.Error)
		default:
			rec.end(mcp.TaskCompleted, rec.Message)
			rec.Result = result
		}
	})
	if err != nil {
		return err
	}
	e.drop(ctx, r.ID, old)
	e.changed(ctx, r.ID, rec)
	return nil
}

func checkQuestions(questions map[string]mcp.InputRequest) error {
	data, err := json.Marshal(questions)
	if err != nil {
		return fmt.Errorf("encoding the questions of a task: %w", err)
	}
	if len(data) > maxQuestions {
		return &SizeError{"questions", len(data), maxQuestions}
	}
	return nil
}

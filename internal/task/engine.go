package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// queueName and subject are the queue of jobs, and the subject of messages about tasks.
	queueName = "tasks"
	subject   = "tasks"
	// MaxTTL is the longest time to live of a task.
	MaxTTL = 365 * 24 * time.Hour
	// minPoll and maxPoll bound the time after which a client should ask for the state of a task again. It
	// is the age of the task, so that the result of a short task is found soon.
	minPoll = 50 * time.Millisecond
	maxPoll = time.Second
	// requeueAfter is how long an answered task may wait before a reader adds its job again, in case the
	// replica that has stored the answers ended before it added the job.
	requeueAfter = 2 * time.Second
	// operationTimeout bounds the operations of the store that belong to no request.
	operationTimeout = 5 * time.Second
)

// ErrUnknown means that there is no task with the id for the principal.
var ErrUnknown = errors.New("task: unknown id")

// ErrNotCreated means that the store does not accept a task, and that its call is not executed. It wraps the error of
// the store.
var ErrNotCreated = errors.New("task: the task cannot be stored")

// ErrMayBeCreated means that it is not known whether the store has accepted a task, and that its call may be executed. It
// wraps the error of the store.
var ErrMayBeCreated = errors.New("task: it is not known whether the task is stored")

// Config configures an [Engine]. All fields but Retained and Shared are required.
type Config struct {
	Store store.Store
	// Key seals records. A sealed record must open for as long as a task is kept.
	Key *state.Key
	// Run runs a call. It returns when ctx ends.
	Run func(ctx context.Context, run *Run) Outcome
	// Retained limits what tasks keep until they expire. nil means no limit. Shared says that other replicas and later
	// processes use Store: the tasks of all count.
	Retained *quota.Retained
	Shared   bool
	// Max is how many tasks run at the same time. This replica accepts at most half as many of one client
	// that have not ended, and runs at most half as many of one client, and at least 1, so that others
	// find free workers.
	Max    int
	Logger *slog.Logger
}

// An Engine creates tasks and runs the tasks of all replicas. Its methods may be called concurrently.
type Engine struct {
	records
	config  Config
	replica string // identifies this engine
	worker  state.Worker

	counts      counts
	kept        *kept
	keptRecords state.Records[keptRecord]

	pulling    context.Context // ends when no more jobs are taken
	stopPull   context.CancelFunc
	working    context.Context // ends when runs are interrupted
	interrupt  context.CancelCauseFunc
	background sync.WaitGroup // the worker, the subscriber and the runs

	mu       sync.Mutex
	started  bool
	stopped  bool
	running  map[*Run]struct{} // several of one task if its job was added again
	watchers map[string]map[*watcher]struct{}
}

// A watcher is notified of the changes of one task.
type watcher struct{ notify func() }

// New returns an engine. [Engine.Stop] must be called.
func New(config Config) *Engine {
	e := &Engine{
		records: newRecords(config.Store, config.Key), config: config, replica: rand.Text(),
		keptRecords: state.NewRecords[keptRecord](config.Store, config.Key),
		running:     make(map[*Run]struct{}), watchers: make(map[string]map[*watcher]struct{}),
	}
	e.kept = newKept(config.Retained, e.share())
	e.worker = state.Worker{Queue: config.Store, Name: queueName, Max: config.Max, Do: e.work, Logger: config.Logger}
	e.pulling, e.stopPull = context.WithCancel(context.Background())
	e.working, e.interrupt = context.WithCancelCause(context.Background())
	return e
}

// Start begins to run tasks, in the background. [Engine.Create] and [Engine.Watch] do so for the first task;
// until then, an engine has no goroutines. Later calls do nothing.
func (e *Engine) Start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started || e.stopped {
		return
	}
	e.started = true
	e.kept.begin()
	e.background.Go(e.receive)
	e.background.Go(func() { e.kept.expire(e.pulling) })
	e.background.Go(func() { e.worker.Work(e.pulling) })
	if e.config.Shared {
		e.background.Go(e.watchKept)
	}
}

// errStopped is the cause of the end of runs at the shutdown.
var errStopped = errors.New("the server is shutting down")

// Drain makes the engine take no more jobs. Calls that wait for a person are interrupted, now or when they begin to
// wait, so that another replica begins them again. A call waits for a person if it has called [deadline.Pause]. Drain
// does not wait.
func (e *Engine) Drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.stopPull()
	for run := range e.running {
		deadline.EndPaused(run.ctx, errStopped)
	}
}

// Stop drains the engine and waits for the calls that work until ctx ends. Those that still run are then
// interrupted too. The error says that some do not end within 5 s after that.
func (e *Engine) Stop(ctx context.Context) error {
	e.Drain()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		e.background.Wait()
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	e.interrupt(errStopped)
	select {
	case <-idle:
		return nil
	case <-time.After(operationTimeout):
		return errors.New("calls that run as tasks have not ended with their contexts")
	}
}

// write stores a part and counts it.
func (e *Engine) write(ctx context.Context, id, name string, value json.RawMessage, until time.Time) (part, error) {
	if err := e.kept.setPart(id, name, len(value)); err != nil {
		return part{}, err
	}
	return e.records.write(ctx, id, name, value, until)
}

// loadOwn loads a record for its principal.
func (e *Engine) loadOwn(ctx context.Context, id, principal string) (*record, error) {
	rec, err := e.load(ctx, id)
	if err == nil && rec.Principal != principal {
		return nil, ErrUnknown
	}
	return rec, err
}

// Get returns the state of a task, with its questions, result or error. The error is [ErrUnknown], or an error of the
// store.
func (e *Engine) Get(ctx context.Context, id, principal string) (*mcp.Task, error) {
	rec, err := e.loadOwn(ctx, id, principal)
	if err != nil {
		return nil, err
	}
	if rec.isQueued() && rec.HandedBack == 0 && time.Since(rec.Updated) > requeueAfter {
		if err := e.push(ctx, id, rec.Round); err != nil {
			return nil, err
		}
	}
	t := e.describe(id, rec)
	t.InputRequests, t.Error = rec.Questions, rec.Error
	if rec.Status == mcp.TaskCompleted {
		t.Result, err = e.read(ctx, id, &rec.Result)
	}
	return t, err
}

// describe returns the state of a task without its questions, result and error.
func (e *Engine) describe(id string, rec *record) *mcp.Task {
	ttl := rec.TTL.Milliseconds()
	t := &mcp.Task{
		TaskID: id, Status: rec.Status, StatusMessage: rec.Message,
		CreatedAt: timeText(rec.Created), LastUpdatedAt: timeText(rec.Updated),
		TTLMs: &ttl, PollIntervalMs: min(max(time.Since(rec.Created), minPoll), maxPoll).Milliseconds(),
	}
	if rec.Progress != nil {
		_ = t.Meta.SetValue(mcp.MetaTaskProgress, rec.Progress) // the key and the value are valid
	}
	return t
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Answer stores the answers to open questions, and ignores others. When no question is open any more, the task runs
// again. The error is [ErrUnknown], a [*SizeError], or an error of the store.
func (e *Engine) Answer(ctx context.Context, id, principal string, answers map[string]json.RawMessage) error {
	rec, err := e.loadOwn(ctx, id, principal)
	if err != nil {
		return err
	}
	e.kept.know(id, rec)
	stored := make(map[string]part)
	for key := range rec.Questions {
		if answer, ok := answers[key]; ok {
			if stored[key], err = e.write(ctx, id, partAnswer+key, answer, rec.until()); err != nil {
				return err
			}
		}
	}
	if len(stored) == 0 {
		return nil
	}
	rec, err = e.update(ctx, id, func(rec *record) bool {
		changed := false
		for key, answer := range stored {
			if _, open := rec.Questions[key]; !open {
				continue // another request was faster, or the task has ended
			}
			changed = true
			delete(rec.Questions, key)
			if rec.Answers == nil {
				rec.Answers = make(map[string]part)
			}
			rec.Answers[key] = answer
		}
		if changed && len(rec.Questions) == 0 {
			rec.Status, rec.Message = mcp.TaskWorking, ""
			rec.Round++
			rec.HandedBack, rec.Vanished = 0, 0
		}
		return changed
	})
	if err != nil {
		return err
	}
	e.changed(ctx, id, rec)
	if rec.isQueued() {
		return e.push(ctx, id, rec.Round)
	}
	return nil
}

// Cancel records that the client wants to cancel a task. A task that waits ends; a running call is cancelled, and its
// function decides the outcome. The error is [ErrUnknown], or an error of the store.
func (e *Engine) Cancel(ctx context.Context, id, principal string) error {
	if _, err := e.loadOwn(ctx, id, principal); err != nil {
		return err
	}
	return e.cancel(ctx, id, cancelledMessage)
}

func (e *Engine) cancel(ctx context.Context, id, message string) error {
	rec, err := e.update(ctx, id, func(rec *record) bool {
		if rec.Cancelled || rec.Status.Ended() {
			return false
		}
		rec.Cancelled = true
		if rec.Status == mcp.TaskInputRequired || rec.isQueued() {
			rec.end(mcp.TaskCancelled, message)
		}
		return true
	})
	if err != nil {
		return err
	}
	e.changed(ctx, id, rec)
	return nil
}

const cancelledMessage = "the task was cancelled by its client"

// Watch calls notify after each change of a task, at any replica, until stop is called. notify must not block. The
// error is [ErrUnknown], or an error of the store.
func (e *Engine) Watch(ctx context.Context, id, principal string, notify func()) (stop func(), err error) {
	if _, err := e.loadOwn(ctx, id, principal); err != nil {
		return nil, err
	}
	e.Start()
	w := &watcher{notify}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers[id] == nil {
		e.watchers[id] = make(map[*watcher]struct{})
	}
	e.watchers[id][w] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers[id], w)
		if len(e.watchers[id]) == 0 {
			delete(e.watchers, id)
		}
	}, nil
}

// A message tells the replicas that a task has changed.
type message struct {
	From      string `json:"from"` // the replica
	ID        string `json:"id"`
	Ended     bool   `json:"ended,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
}

// changed notifies the watchers of a task at all replicas, and tells these what it keeps. A message that is lost delays clients until
// they ask again.
func (e *Engine) changed(ctx context.Context, id string, rec *record) {
	m := message{From: e.replica, ID: id, Ended: rec.Status.Ended(), Cancelled: rec.Cancelled}
	e.handle(m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
	defer cancel()
	if err := e.storeKept(ctx, id); err != nil && !errors.Is(err, store.ErrClosed) {
		e.config.Logger.Warn("what a task keeps cannot be passed to other replicas", "error", err)
	}
	data, err := json.Marshal(m)
	if err == nil {
		data, err = e.key.SealBytes(ctx, data, token.Binding("task", subject))
	}
	if err == nil {
		err = e.config.Store.Publish(ctx, subject, data)
	}
	if err != nil && !errors.Is(err, store.ErrClosed) {
		e.config.Logger.Warn("a change of a task cannot be passed to other replicas", "error", err)
	}
}

// handle notifies the watchers of this replica, and cancels a run of this replica.
func (e *Engine) handle(m message) {
	if m.Ended {
		e.kept.end(m.ID)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.watchers[m.ID] {
		w.notify()
	}
	if !m.Cancelled {
		return
	}
	for run := range e.running {
		if run.ID == m.ID {
			run.cancel(ErrCancelled)
		}
	}
}

// receive handles the messages of other replicas until the engine stops. It subscribes again after
// failures.
func (e *Engine) receive() {
	var pause backoff.Backoff
	for {
		stop, err := e.config.Store.Subscribe(e.pulling, subject, e.receiveMessage)
		if err == nil {
			e.missed() // messages before the subscription
			<-e.pulling.Done()
			stop()
			return
		}
		if e.pulling.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		e.config.Logger.Warn("messages about tasks cannot be received; it is tried again", "error", err)
		if pause.Wait(e.pulling) != nil {
			return
		}
	}
}

func (e *Engine) receiveMessage(ctx context.Context, received store.Message) {
	if received.Missed {
		e.missed()
		return
	}
	data, err := e.config.Key.OpenBytes(ctx, received.Data, token.Binding("task", subject))
	var m message
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		e.config.Logger.Warn("a message about a task cannot be read", "error", err)
		return
	}
	if m.From != e.replica {
		e.handle(m)
	}
}

// counts count since the start of the engine, at this replica; see [Stats].
type counts struct{ attempts, repeated, lapsed, abandoned atomic.Uint64 }

// Stats are numbers of one replica, for its operator.
type Stats struct {
	// Running is how many tasks run now, of at most MaxRunning.
	Running, MaxRunning int64
	// Kept is how many bytes the tasks of all replicas keep, of at most MaxKept. 0 means no limit.
	Kept, MaxKept int64
	// Since the engine was made: Attempts were begun, of which Repeated for tasks that an earlier attempt had left without an
	// outcome. Lapsed leases were found, and Abandoned tasks have failed without the outcome of their function.
	Attempts, Repeated, Lapsed, Abandoned uint64
}

// Stats returns the numbers of this replica.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	running := int64(len(e.running))
	e.mu.Unlock()
	kept := e.config.Retained.Usage()
	return Stats{
		Running: running, MaxRunning: int64(e.config.Max), Kept: kept.Used, MaxKept: kept.Max,
		Attempts: e.counts.attempts.Load(), Repeated: e.counts.repeated.Load(), Lapsed: e.counts.lapsed.Load(), Abandoned: e.counts.abandoned.Load(),
	}
}

// missed assumes that all tasks have changed.
func (e *Engine) missed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, watchers := range e.watchers {
		for w := range watchers {
			w.notify()
		}
	}
	for run := range e.running {
		run.wakeUp()
	}
}

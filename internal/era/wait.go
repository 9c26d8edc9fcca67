package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// ErrTaskCancelled means that a task was cancelled before its call was complete.
var ErrTaskCancelled = errors.New("the task was cancelled")

// ErrTaskState means that the server of a task has returned a state that is not valid.
var ErrTaskState = errors.New("the state of the task is not valid")

// WatchTask subscribes to the states of a task until ctx ends. It returns nil if the server ends the
// subscription. ready is called when the server has accepted the subscription, or has left out the task,
// and changed with each state. Both run on the read loop, and must not block.
func (c *Client) WatchTask(ctx context.Context, id string, ready func(accepted bool), changed func(state json.RawMessage)) error {
	return c.era.listen(ctx, c, mcp.SubscriptionFilter{TaskIDs: []string{id}}, listener{
		ready: func(accepted mcp.SubscriptionFilter) { ready(slices.Contains(accepted.TaskIDs, id)) },
		task:  changed,
	})
}

// IsTask reports whether a call that the client has made continues as a task.
func (c *Client) IsTask(method string, resp *jsonrpc.Response) bool {
	return c.version.Modern() && IsTask(method, resp.Member("resultType"))
}

// A TaskWait waits for the outcome of one task, which this process or another server keeps. Wait must be called at most
// once.
type TaskWait struct {
	ID string
	// Request makes one request about the task, and returns its result.
	Request func(ctx context.Context, method string, params mcp.Raw) (json.RawMessage, error)
	// MayRetry reports whether a request that failed with err can succeed later. attempts is how often it was made.
	// Default: a server that is busy or has an internal error is asked maxTaskAttempts times.
	MayRetry func(err error, attempts int) bool
	// Watch subscribes to the states of the task, as [Client.WatchTask] does. A state that is nil makes Wait ask for
	// the state. Default: Wait only asks.
	Watch func(ctx context.Context, ready func(accepted bool), changed func(state json.RawMessage)) error
	// Local says that this process keeps the task, so that Wait subscribes immediately.
	Local bool
	// Answer returns the answers to questions as an object, as [Client.AnswerAll] does. If it returns answers and an
	// error, Wait sends the answers, also if ctx has ended, and returns the error. Default: Wait leaves the questions to
	// others.
	Answer func(ctx context.Context, questions map[string]mcp.InputRequest) (json.RawMessage, error)
	// Answered are the keys of the questions that have been answered before.
	Answered []string
	// MaxRounds is how many times the task may ask. Default [MaxRounds].
	MaxRounds int
	// Meta is added to each request.
	Meta mcp.Meta
	// Progress, if set, is called with the progress of the task, on the goroutine that waits.
	Progress func(*mcp.ProgressParams)
	// State, if set, is called with each state, on the goroutine that waits.
	State func(*mcp.Task)

	poll      taskPoll
	begun     time.Time // when Wait began to ask
	questions taskQuestions

	watching    sync.WaitGroup // the goroutine of a subscription
	stopWatch   context.CancelFunc
	accepted    chan bool            // whether the server has accepted it
	unwatched   chan error           // the end of the subscription; nil if there is none
	changed     chan json.RawMessage // the newest state
	watched     bool                 // the server has accepted the subscription
	interrupted bool                 // a subscription has ended
	unwatchable bool                 // the server does not accept subscriptions

	message  string // the last status message that was reported
	progress float64
}

// Wait returns the result of the task as the response of its call. It asks for the state of the task as
// often as the server permits, and subscribes to a task that takes longer. It answers the questions of the
// task. state is the last known state; nil makes Wait ask for it.
//
// A task that has failed has a response with its error. Wait returns the error of a request or of Answer,
// [ErrTaskCancelled], [ErrTaskState], a *[mcp.LimitError] if the task asks too often, or the cause of ctx. The task may
// still run then, except after ErrTaskCancelled.
func (w *TaskWait) Wait(ctx context.Context, state *mcp.Task) (*jsonrpc.Response, error) {
	if w.ID == "" || len(w.ID) > maxTaskID {
		return nil, fmt.Errorf("the id of the task has %d bytes, expected 1 to %d", len(w.ID), maxTaskID)
	}
	w.begun, w.changed, w.unwatchable = time.Now(), make(chan json.RawMessage, 1), w.Watch == nil
	w.MaxRounds = cmp.Or(w.MaxRounds, MaxRounds)
	w.questions.skip(w.Answered)
	ctx, w.stopWatch = context.WithCancel(ctx)
	defer w.watching.Wait()
	defer w.stopWatch()
	var err error
	if state == nil {
		state, err = w.get(ctx)
	}
	for err == nil {
		if w.State != nil {
			w.State(state)
		}
		w.report(state)
		if state.Status.Ended() {
			return outcome(state)
		}
		var next *mcp.Task
		switch state.Status {
		case mcp.TaskWorking:
		case mcp.TaskInputRequired:
			next, err = w.answer(ctx, state.InputRequests)
		default:
			return nil, fmt.Errorf("%w: it has the unknown status %s", ErrTaskState, jsonscan.Quote(string(state.Status)))
		}
		if err == nil && next == nil {
			next, err = w.next(ctx, w.poll.next(state.PollIntervalMs))
		}
		state = next
	}
	return nil, err
}

// next returns the next state, after a pause or when the server sends it.
func (w *TaskWait) next(ctx context.Context, pause time.Duration) (*mcp.Task, error) {
	if w.unwatched == nil && !w.unwatchable && ((w.Local || pause >= longPoll) && !w.interrupted || time.Since(w.begun) >= watchAfter) {
		w.watch(ctx)
	}
	if w.watched {
		pause = max(pause, watchedPoll)
	}
	due := time.After(pause)
	for {
		select {
		case encoded := <-w.changed:
			if encoded == nil {
				return w.get(ctx)
			}
			if state, err := w.decode(encoded); err == nil {
				return state, nil
			}
		case w.watched = <-w.accepted:
			if w.watched {
				return w.get(ctx) // it may have changed before
			}
			w.unwatchable = true
		case err := <-w.unwatched:
			select {
			case w.watched = <-w.accepted:
			default:
			}
			wasWatched := w.watched
			w.accepted, w.unwatched = nil, nil
			w.watched, w.interrupted, w.begun = false, true, time.Now()
			if wasWatched {
				w.poll.reset()
				return w.get(ctx)
			}
			w.unwatchable = w.unwatchable || !w.mayRetry(err, 1)
		case <-due:
			return w.get(ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// watch subscribes to the states of the task.
func (w *TaskWait) watch(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	answer, end := make(chan bool, 1), make(chan error, 1)
	w.accepted, w.unwatched = answer, end
	ready := func(accepted bool) {
		select {
		case answer <- accepted:
		default: // a server accepts once
		}
		if !accepted {
			stop()
		}
	}
	changed := func(state json.RawMessage) {
		select {
		case <-w.changed: // older
		default:
		}
		select {
		case w.changed <- state:
		default:
		}
	}
	w.watching.Go(func() {
		defer stop()
		end <- w.Watch(ctx, ready, changed)
	})
}

// request makes a request, and repeats it while it may succeed later. All requests about tasks may be repeated.
func (w *TaskWait) request(ctx context.Context, method string, answers json.RawMessage) (json.RawMessage, error) {
	params, err := w.params(answers)
	if err != nil {
		return nil, err
	}
	pause := backoff.Backoff{Min: minTaskRetry, Max: maxTaskRetry}
	for attempts := 1; ; attempts++ {
		result, err := w.Request(ctx, method, params)
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !w.mayRetry(err, attempts):
			return nil, err
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (w *TaskWait) params(answers json.RawMessage) (mcp.Raw, error) {
	return jsonscan.Splice(nil, []byte(emptyObject),
		jsonscan.Edit{Name: "taskId", Value: jsonscan.AppendString(nil, w.ID)},
		jsonscan.Edit{Name: memberResponses, Value: answers}, jsonscan.Edit{Name: memberMeta, Value: json.RawMessage(w.Meta)})
}

func (w *TaskWait) mayRetry(err error, attempts int) bool {
	if w.MayRetry != nil {
		return w.MayRetry(err, attempts)
	}
	return attempts < maxTaskAttempts && IsTransient(err)
}

// IsTransient reports whether err is the answer of a server that is busy or has an internal error, so that a request
// about a task may succeed later.
func IsTransient(err error) bool {
	failure, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (failure.Code == jsonrpc.Busy || failure.Code == jsonrpc.InternalError)
}

// Get returns the state of the task.
func (w *TaskWait) Get(ctx context.Context) (*mcp.Task, error) { return w.get(ctx) }

func (w *TaskWait) get(ctx context.Context) (*mcp.Task, error) {
	state, err := w.request(ctx, mcp.MethodTasksGet, nil)
	if err != nil {
		return nil, err
	}
	return w.decode(state)
}

// Cancel asks the server to cancel the task. It does not repeat the request, and waits for at most cancelTaskTimeout.
func (w *TaskWait) Cancel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTaskTimeout)
	defer cancel()
	params, err := w.params(nil)
	if err != nil {
		return err
	}
	_, err = w.Request(ctx, mcp.MethodTasksCancel, params)
	return err
}

func (w *TaskWait) decode(encoded json.RawMessage) (*mcp.Task, error) {
	state := new(mcp.Task)
	if err := decodeObject(encoded, state); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTaskState, err)
	}
	if state.TaskID != w.ID {
		return nil, fmt.Errorf("%w: it is the state of another task", ErrTaskState)
	}
	return state, nil
}

// answer answers the questions that are new. It returns a state if it has asked for it.
func (w *TaskWait) answer(ctx context.Context, questions map[string]mcp.InputRequest) (*mcp.Task, error) {
	if w.Answer == nil {
		return nil, nil
	}
	open, ok := w.questions.take(questions, w.MaxRounds)
	switch {
	case !ok:
		return nil, RoundsError(w.MaxRounds)
	case len(open) == 0:
		return nil, nil // the server has not processed the answers yet
	}
	answers, err := w.Answer(ctx, open)
	if err != nil && answers == nil {
		return nil, err
	}
	if ctx.Err() != nil { // the answers of a person are not lost
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cancelTaskTimeout)
		defer cancel()
	}
	w.begun = time.Now()
	w.poll.reset()
	_, failure := w.request(ctx, mcp.MethodTasksUpdate, answers)
	if _, refused := errors.AsType[*jsonrpc.Error](failure); refused {
		if state, err := w.get(ctx); err == nil && state.Status.Ended() {
			return state, nil // the answers came too late
		}
	}
	return nil, cmp.Or(failure, err)
}

// report calls the callback if the task has made progress. A status message without a number counts as
// one step.
func (w *TaskWait) report(state *mcp.Task) {
	if w.Progress == nil {
		return
	}
	p := &mcp.ProgressParams{Message: state.StatusMessage}
	members, err := jsonscan.ReadObject(state.Meta.Get(mcp.MetaTaskProgress))
	progress, ok := number(members.Get("progress"))
	switch {
	case err == nil && ok && progress > w.progress:
		p.Progress = progress
		if total, ok := number(members.Get("total")); ok {
			p.Total = &total
		}
	case err == nil && ok, state.Status.Ended(), p.Message == "", p.Message == w.message:
		return
	default:
		p.Progress = w.progress + 1
	}
	w.progress, w.message = p.Progress, p.Message
	w.Progress(p)
}

// outcome returns the response of a call whose task has ended.
func outcome(state *mcp.Task) (*jsonrpc.Response, error) {
	switch state.Status {
	case mcp.TaskCancelled:
		if state.StatusMessage == "" {
			return nil, ErrTaskCancelled
		}
		return nil, fmt.Errorf("%w: %s", ErrTaskCancelled, jsonscan.Quote(state.StatusMessage))
	case mcp.TaskFailed:
		failure := new(jsonrpc.Error)
		if jsonscan.KindOf(state.Error) != jsonscan.Object || json.Unmarshal(state.Error, failure) != nil {
			return nil, fmt.Errorf("%w: the task has failed, and there is no valid error", ErrTaskState)
		}
		return &jsonrpc.Response{Error: failure}, nil
	}
	if jsonscan.KindOf(state.Result) != jsonscan.Object {
		return nil, fmt.Errorf("%w: the task is complete, and there is no valid result", ErrTaskState)
	}
	text := append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), state.Result...)
	message, err := jsonrpc.Decode(append(text, '}'))
	if err != nil {
		return nil, fmt.Errorf("%w: its result: %v", ErrTaskState, err) // not %w: it is not the error of the server
	}
	resp := message.(*jsonrpc.Response)
	if kind := resp.Member("resultType"); kind != nil && !isString(kind, string(mcp.ResultComplete)) {
		return nil, fmt.Errorf("%w: its result is of an unknown type %s", ErrTaskState, jsonscan.Quote(string(kind)))
	}
	return resp, nil
}

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// lostTaskTimeout is how long a server whose task is awaited may be out of reach.
	lostTaskTimeout = 5 * time.Minute
	// cancelTaskTimeout bounds the request that cancels a task.
	cancelTaskTimeout = 5 * time.Second
)

// A taskSupport says how a server makes calls of a tool tasks.
type taskSupport int

const (
	noTasks        taskSupport = iota
	extensionTasks             // the server declares mcp.ExtensionTasks, and decides for each call
	mayBeTask                  // 2025-11-25: the client decides
	mustBeTask                 // 2025-11-25: a call must ask for a task
)

// taskSupportOf returns how a tool supports tasks.
func (l *lists) taskSupportOf(entry listed) taskSupport {
	if l.tasks != mayBeTask || entry.kind != mcp.KindTool {
		return l.tasks
	}
	execution, err := jsonscan.Find(entry.definition, "execution")
	if err != nil || jsonscan.KindOf(execution) != jsonscan.Object {
		return noTasks
	}
	switch support, _ := jsonscan.Find(execution, "taskSupport"); string(support) {
	case `"optional"`:
		return mayBeTask
	case `"required"`:
		return mustBeTask
	}
	return noTasks
}

// serverTasks returns which tasks a server declares.
func serverTasks(has mcp.ServerCapabilities) taskSupport {
	switch {
	case has.HasExtension(mcp.ExtensionTasks):
		return extensionTasks
	case has.Tasks != nil:
		return mayBeTask
	}
	return noTasks
}

// answerTask forwards a request about a task of the server.
func (u *Upstream) answerTask(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	return u.send(ctx, call, forwarding{})
}

// A forwardedTask is a call that runs as a task of this program, and that is forwarded to a server. Its
// exported fields are stored with the call, so that the call is not sent twice.
type forwardedTask struct {
	// Sent says that the call was sent, and that the server has not answered yet.
	Sent bool `json:"sent,omitempty"`
	// ID identifies the task that the server has made of the call; "" if there is none.
	ID string `json:"id,omitempty"`
	// Answered are the keys of the questions whose answers were sent.
	Answered []string `json:"answered,omitempty"`

	upstream *Upstream
	call     *mcp.Call
	message  string // the last status message
	ended    bool   // the task of the server
}

func (f *forwardedTask) key() string { return "task of " + f.upstream.alias }

func (f *forwardedTask) store() error {
	state, err := json.Marshal(f)
	if err == nil {
		f.call.Store(f.key(), state)
	}
	return err
}

var errInterrupted = errors.New("the call was interrupted while the server worked on it")

// runTask forwards a call that runs as a task. If the server continues the call as a task too, runTask
// waits for its result. A call that begins again waits for the same task.
func (u *Upstream) runTask(ctx context.Context, call *mcp.Call, how forwarding) (mcp.Result, error) {
	f := &forwardedTask{upstream: u, call: call}
	if stored, ok := call.Load(f.key()); ok {
		if err := json.Unmarshal(stored, f); err != nil {
			return nil, err
		}
	}
	var state *mcp.Task
	if f.ID == "" {
		if f.Sent {
			return nil, &UpstreamError{Server: u.alias, Failure: Lost, Delivery: jsonrpc.MaybeExecuted, Err: errInterrupted}
		}
		result, err := f.send(ctx, how)
		created, ok := result.(*mcp.Task)
		if err != nil || !ok {
			return result, err
		}
		f.ID, state = created.TaskID, created
		if err := f.store(); err != nil {
			return nil, err
		}
	}
	result, err := f.wait(ctx, state)
	if _, asks := mcp.AsInputRequired(err); err != nil && !asks && !f.ended && !task.Interrupted(ctx) {
		f.cancel(ctx)
	}
	return result, err
}

// send sends the call, and stores that it may have been executed.
func (f *forwardedTask) send(ctx context.Context, how forwarding) (mcp.Result, error) {
	f.Sent = true
	if err := f.store(); err != nil {
		return nil, err
	}
	result, err := f.upstream.send(ctx, f.call, how)
	_, asks := mcp.AsInputRequired(err)
	failed, ok := errors.AsType[*UpstreamError](err)
	if asks || ok && failed.Delivery != jsonrpc.MaybeExecuted {
		f.Sent = false
		if err := f.store(); err != nil {
			return nil, err
		}
	}
	return result, err
}

// request makes a request about the task of the server.
func (f *forwardedTask) request(ctx context.Context, method string, answers map[string]json.RawMessage) (json.RawMessage, error) {
	params, err := (&mcp.TaskParams{TaskID: f.ID, InputResponses: answers}).AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, params)
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(req, f.call.Caller, nil)
	result, err := f.upstream.send(ctx, &call, forwarding{})
	if err != nil {
		return nil, err
	}
	return result.AppendJSON(nil)
}

// wait waits until the task of the server has ended, or asks. state is nil if it is not known.
func (f *forwardedTask) wait(ctx context.Context, state *mcp.Task) (mcp.Result, error) {
	var poll era.TaskPoll
	reached := time.Now()
	for {
		if state != nil {
			if err := pauseFor(ctx, poll.Next(state.PollIntervalMs)); err != nil {
				return nil, err
			}
		}
		now, err := f.get(ctx)
		failed, unreachable := errors.AsType[*UpstreamError](err)
		switch {
		case err == nil:
			state, reached = now, time.Now()
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case unreachable && failed.Failure != Malformed && failed.Failure != LimitExceeded && time.Since(reached) < lostTaskTimeout:
			state = new(mcp.Task) // ask again
			continue
		default:
			return nil, err
		}
		if state.Status.Ended() {
			f.ended = true
			return f.resultOf(state)
		}
		f.report(ctx, state)
		if state.Status == mcp.TaskInputRequired {
			if err := f.answer(ctx, state.InputRequests); err != nil {
				return nil, err
			}
		}
	}
}

// pauseFor waits for a time, or returns the cause of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *forwardedTask) get(ctx context.Context) (*mcp.Task, error) {
	raw, err := f.request(ctx, mcp.MethodTasksGet, nil)
	if err != nil {
		return nil, err
	}
	state := new(mcp.Task)
	if err := state.UnmarshalJSON(raw); err != nil {
		return nil, f.malformed(err)
	}
	return state, nil
}

func (f *forwardedTask) malformed(err error) error {
	return &UpstreamError{Server: f.upstream.alias, Failure: Malformed, Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// resultOf returns the result of a task that has ended.
func (f *forwardedTask) resultOf(state *mcp.Task) (mcp.Result, error) {
	switch state.Status {
	case mcp.TaskCompleted:
		if jsonscan.KindOf(state.Result) != jsonscan.Object {
			return nil, f.malformed(errors.New("the task is complete and has no result"))
		}
		return mcp.Raw(state.Result), nil
	case mcp.TaskFailed:
		failure := new(jsonrpc.Error)
		if err := json.Unmarshal(state.Error, failure); err != nil {
			return nil, f.malformed(fmt.Errorf("the error of the task: %w", err))
		}
		return nil, failure
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: ownerOf(f.upstream.alias) + " has cancelled its task of the call"}
}

// report passes the status message of the server on.
func (f *forwardedTask) report(ctx context.Context, state *mcp.Task) {
	if state.StatusMessage == f.message {
		return
	}
	f.message = state.StatusMessage
	_ = f.call.Notify(ctx, mcp.NotificationTasks, &mcp.Task{StatusMessage: f.message, Meta: state.Meta}) // if it fails, ctx has ended
}

// answer sends the answers of the caller to the server. The error asks those questions that have no
// answer.
func (f *forwardedTask) answer(ctx context.Context, questions map[string]mcp.InputRequest) error {
	answers, open := make(map[string]json.RawMessage), &mcp.InputRequired{Requests: make(map[string]mcp.InputRequest)}
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		if slices.Contains(f.Answered, key) {
			continue // the server has not processed it yet
		}
		answer, err := f.call.Input(f.upstream.alias+"##"+key, questions[key])
		asked, asks := mcp.AsInputRequired(err)
		switch {
		case asks:
			maps.Copy(open.Requests, asked.Requests)
		case err != nil:
			return fmt.Errorf("a question of %s: %w", ownerOf(f.upstream.alias), err)
		default:
			answers[key] = answer
		}
	}
	if len(answers) > 0 {
		if _, err := f.request(ctx, mcp.MethodTasksUpdate, answers); err != nil {
			return err
		}
		f.Answered = slices.AppendSeq(f.Answered, maps.Keys(answers))
		if err := f.store(); err != nil {
			return err
		}
	}
	if len(open.Requests) > 0 {
		return open
	}
	return nil
}

// cancel cancels the task of the server. If that fails, the task ends with its time to live.
func (f *forwardedTask) cancel(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTaskTimeout)
	defer stop()
	if _, err := f.request(ctx, mcp.MethodTasksCancel, nil); err != nil {
		f.upstream.opts.Logger.Warn("a task of the server could not be cancelled", "error", err)
	}
}

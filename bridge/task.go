package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
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

// answerTask forwards a request about a task of the server. If the request fails, the call of the task may have been
// executed, however far the request has got.
func (u *Upstream) answerTask(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	result, err := u.send(ctx, call, forwarding{})
	if failed, ok := errors.AsType[*UpstreamError](err); ok {
		err = &UpstreamError{Server: u.alias, Failure: failed.Failure, Delivery: jsonrpc.MaybeExecuted, Err: failed.Err}
	}
	return result, err
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

	upstream    *Upstream
	call        *mcp.Call
	message     string    // the last status message
	sentAnswers []string  // the keys of the answers that are sent
	reached     time.Time // when the server has answered last
	ended       bool      // the task of the server
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
			task.OutcomeLost(ctx)
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
	wait := &era.TaskWait{ID: f.ID, Request: f.request, MayRetry: f.mayRetry, Answer: f.answer, Answered: f.Answered, State: func(state *mcp.Task) { f.report(ctx, state) }}
	f.reached = time.Now()
	resp, err := wait.Wait(ctx, state)
	if _, asks := mcp.AsInputRequired(err); err != nil && !asks && !f.ended && !task.Interrupted(ctx) {
		if err := wait.Cancel(context.WithoutCancel(ctx)); err != nil { // the task ends with its time to live
			u.opts.Logger.Warn("a task of the server could not be cancelled", "error", err)
		}
	}
	_, failed := errors.AsType[*UpstreamError](err)
	_, limited := errors.AsType[*mcp.LimitError](err)
	switch {
	case failed:
		return nil, err
	case errors.Is(err, era.ErrTaskCancelled):
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: u.owner + " has cancelled its task of the call"}
	case errors.Is(err, era.ErrTaskState):
		return nil, &UpstreamError{Server: u.alias, Failure: Malformed, Delivery: jsonrpc.MaybeExecuted, Err: err}
	case limited:
		return nil, &UpstreamError{Server: u.alias, Failure: LimitExceeded, Delivery: jsonrpc.MaybeExecuted, Err: err}
	case err != nil:
		return nil, err
	case resp.Error != nil:
		return nil, resp.Error
	}
	return mcp.Raw(resp.Result), nil
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

// request makes a request about the task of the server. Nothing subscribes to the task: that would keep a session open,
// and the sessions of callers are closed when they are idle.
func (f *forwardedTask) request(ctx context.Context, method string, params mcp.Raw) (json.RawMessage, error) {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, json.RawMessage(params))
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(req, f.call.Caller, nil)
	result, err := f.upstream.answerTask(ctx, &call)
	if err != nil {
		return nil, err
	}
	f.reached = time.Now()
	if method == mcp.MethodTasksUpdate {
		f.Answered = append(f.Answered, f.sentAnswers...)
		if err := f.store(); err != nil {
			return nil, err
		}
	}
	return result.AppendJSON(nil)
}

// mayRetry reports whether a request that failed with err can succeed later. It can if the server is busy, has an
// internal error, or could not be reached for at most era.LostTaskTimeout.
func (f *forwardedTask) mayRetry(err error, _ int) bool {
	if time.Since(f.reached) >= era.LostTaskTimeout || client.IsForbidden(err) {
		return false
	}
	if failed, ok := errors.AsType[*UpstreamError](err); ok {
		return failed.Failure != Malformed && failed.Failure != LimitExceeded
	}
	return era.IsTransient(err)
}

// report passes the status message of the server on.
func (f *forwardedTask) report(ctx context.Context, state *mcp.Task) {
	f.ended = state.Status.Ended()
	if f.ended || state.StatusMessage == f.message {
		return
	}
	f.message = state.StatusMessage
	_ = f.call.Notify(ctx, mcp.NotificationTasks, &mcp.Task{StatusMessage: f.message, Meta: state.Meta}) // if it fails, ctx has ended
}

// answer returns the answers of the caller. The error asks the questions without an answer.
func (f *forwardedTask) answer(_ context.Context, questions map[string]mcp.InputRequest) (json.RawMessage, error) {
	answers, open := make(map[string]json.RawMessage), &mcp.InputRequired{Requests: make(map[string]mcp.InputRequest)}
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		answer, err := f.call.Input(f.upstream.alias+"##"+key, questions[key])
		asked, asks := mcp.AsInputRequired(err)
		switch {
		case asks:
			maps.Copy(open.Requests, asked.Requests)
		case err != nil:
			return nil, fmt.Errorf("a question of %s: %w", f.upstream.owner, err)
		default:
			answers[key] = answer
		}
	}
	var asks error
	if len(open.Requests) > 0 {
		asks = open
	}
	if len(answers) == 0 {
		return nil, asks
	}
	f.sentAnswers = slices.Collect(maps.Keys(answers))
	encoded, err := json.Marshal(answers)
	return encoded, cmp.Or(err, asks)
}

package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// ErrTaskCancelled means, under [errors.Is], that a call has no result because its task was cancelled at
// the server.
var ErrTaskCancelled = era.ErrTaskCancelled

// A Task is a call of a tool that the server continues in the background. [Session.Task] returns one. Its
// methods may be called concurrently. They need version 2026-07-28. [Options].Middleware does not see
// their requests.
//
// All requests about tasks may be repeated. While the connection is lost or the server cannot be reached,
// they are repeated with growing pauses, as often as [Limits].Reconnects permits.
type Task struct {
	session *Session
	id      string
}

// Task returns the task with an id, which another process may have got from [CallOptions].OnTask. It
// sends no request: the methods of a task that does not exist, has expired, or belongs to another
// principal, return the error of the server.
func (s *Session) Task(id string) *Task { return &Task{session: s, id: id} }

// ID returns the id of the task. It is secret: a server may accept it as an authorization.
func (t *Task) ID() string { return t.id }

// Get returns the state of the task. Errors are as in [Session.Call].
func (t *Task) Get(ctx context.Context) (*mcp.Task, error) {
	wait, err := t.session.taskWait(t.id, nil)
	if err != nil {
		return nil, notSent(mcp.MethodTasksGet, err)
	}
	state, err := wait.Get(ctx)
	return state, asCallError(mcp.MethodTasksGet, err)
}

// Wait waits for the result of the task, and answers its questions with the handlers in [Options]. The
// task goes on if ctx ends or Wait fails; Wait can be called again. Of opts, which may be nil, OnTask has
// no effect. Errors are as in [Session.CallTool].
func (t *Task) Wait(ctx context.Context, opts *CallOptions) (*mcp.CallToolResult, error) {
	resp, err := t.wait(ctx, opts)
	if err != nil {
		return nil, err
	}
	return decodeToolResult(resp)
}

// WaitAs waits for the result of a task, as [Task.Wait] does, and decodes it as [CallAs] does. The Tool of
// its errors is "".
func WaitAs[Out any](ctx context.Context, t *Task, opts *CallOptions) (Out, error) {
	var out Out
	err := t.waitInto(ctx, opts, &out)
	return out, err
}

func (t *Task) waitInto(ctx context.Context, opts *CallOptions, out any) error {
	resp, err := t.wait(ctx, opts)
	if err != nil {
		return err
	}
	return decodeInto("", resp, out)
}

func (t *Task) wait(ctx context.Context, opts *CallOptions) (*jsonrpc.Response, error) {
	wait, err := t.session.taskWait(t.id, opts)
	if err != nil {
		return nil, notSent(mcp.MethodToolsCall, err)
	}
	return t.session.await(ctx, wait, nil)
}

// Cancel asks the server to cancel the task, and waits for at most 2 s. The server decides whether and
// when the task ends. Errors are as in [Session.Call].
func (t *Task) Cancel(ctx context.Context) error {
	wait, err := t.session.taskWait(t.id, nil)
	if err != nil {
		return notSent(mcp.MethodTasksCancel, err)
	}
	return asCallError(mcp.MethodTasksCancel, wait.Cancel(ctx))
}

func (s *Session) taskWait(id string, opts *CallOptions) (*era.TaskWait, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, err
	}
	options := opts.options()
	progress := options.Progress
	options.Progress = nil
	return &era.TaskWait{
		ID: id, Meta: meta, Progress: progress, MaxRounds: s.opts.Limits.Rounds, MayRetry: s.mayRetryTask,
		Request: func(ctx context.Context, method string, params mcp.Raw) (json.RawMessage, error) {
			resp, _, err := s.request(ctx, method, params, options)
			if err != nil {
				return nil, err
			}
			return resp.Result, nil
		},
		Watch: func(ctx context.Context, ready func(accepted bool), changed func(state json.RawMessage)) error {
			conn, err := s.liveConn(ctx)
			if err != nil {
				return err
			}
			return conn.WatchTask(ctx, id, ready, changed)
		},
		Answer: func(ctx context.Context, questions map[string]mcp.InputRequest) (json.RawMessage, error) {
			return s.current().AnswerAll(ctx, questions)
		},
	}, nil
}

// finishTask waits for the task that a call continues as. created is the response of the call.
func (s *Session) finishTask(ctx context.Context, created *jsonrpc.Response, opts *CallOptions) (*jsonrpc.Response, error) {
	state := new(mcp.Task)
	if err := decode(mcp.MethodToolsCall, created, state); err != nil {
		return nil, err
	}
	wait, err := s.taskWait(state.TaskID, opts)
	if err != nil {
		return nil, asCallError(mcp.MethodToolsCall, err)
	}
	stored := opts != nil && opts.OnTask != nil
	if stored {
		opts.OnTask(state)
	}
	resp, err := s.await(ctx, wait, state)
	if _, abandoned := err.(*jsonrpc.CallError); abandoned && !stored && !errors.Is(err, ErrTaskCancelled) {
		_ = wait.Cancel(context.WithoutCancel(ctx)) // nothing else can be done: the id is lost
	}
	return resp, err
}

// await waits for the outcome of a task. The error is the *jsonrpc.Error of the task, or otherwise a
// *jsonrpc.CallError that says that the call may have been executed, however far a request about its task
// has got.
func (s *Session) await(ctx context.Context, wait *era.TaskWait, state *mcp.Task) (*jsonrpc.Response, error) {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(s.ctx, func() { end(jsonrpc.ErrClosed) })()
	resp, err := wait.Wait(waiting, state)
	switch failed, ok := err.(*jsonrpc.CallError); {
	case ok:
		err = failed.Err
	case err == nil && resp.Error != nil:
		return nil, resp.Error
	case err == nil:
		return resp, nil
	}
	return nil, &jsonrpc.CallError{Method: mcp.MethodToolsCall, Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// mayRetryTask reports whether a request about a task that failed with err can succeed later: after a lost connection,
// and if the server was not reached, is busy or has an internal error.
func (s *Session) mayRetryTask(err error, attempts int) bool {
	if attempts > s.opts.Limits.Reconnects || s.isDead() || IsForbidden(err) {
		return false
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return era.IsTransient(err)
	}
	return errors.Is(err, jsonrpc.ErrClosed) || errors.Is(err, transport.ErrNotReached)
}

// isDead reports whether the session has ended.
func (s *Session) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead != nil || s.ctx.Err() != nil
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A taskSink receives the progress of a call that runs as a task.
type taskSink struct{ run *task.Run }

// Notify sets the progress of the task. Log messages of tasks are not sent: SEP-2663, "Task Status
// Notifications".
func (t taskSink) Notify(_ context.Context, method string, params jsonrpc.Appender) error {
	if method != mcp.NotificationProgress && method != mcp.NotificationTasks {
		return nil
	}
	encoded, err := params.AppendJSON(nil)
	if err != nil {
		return err
	}
	if method == mcp.NotificationTasks { // of the call itself: its new status message
		return t.describe(encoded)
	}
	var progress mcp.ProgressParams
	if err := progress.UnmarshalJSON(encoded); err != nil {
		return err
	}
	reported := task.Progress{Progress: progress.Progress}
	if progress.Total != nil {
		reported.Total = *progress.Total
	}
	message := progress.Message
	switch {
	case message != "":
	case reported.Total > 0:
		message = fmt.Sprintf("%v of %v", reported.Progress, reported.Total)
	default:
		message = fmt.Sprint(reported.Progress)
	}
	t.run.Report(message, &reported)
	return nil
}

// describe sets the status message, and the progress if the task has any.
func (t taskSink) describe(encoded json.RawMessage) error {
	var state mcp.Task
	if err := state.UnmarshalJSON(encoded); err != nil {
		return err
	}
	var reported *task.Progress
	if raw := state.Meta.Get(mcp.MetaTaskProgress); raw != nil {
		if err := json.Unmarshal(raw, &reported); err != nil {
			return err
		}
	}
	t.run.Report(state.StatusMessage, reported)
	return nil
}

// Save stores the state of the call.
func (t taskSink) Save(ctx context.Context, state json.RawMessage) { t.run.Save(ctx, state) }

// beginFunction records that the function of a call that runs as a task begins, and how often it may begin again. After
// an error, it must not be executed.
func beginFunction(ctx context.Context, call *mcp.Call, maxRestarts int) error {
	if call.TaskID() == "" {
		return nil
	}
	run := task.RunOf(ctx)
	if run == nil {
		return errors.New("a middleware has replaced the context of the call, so that it cannot be stored that its function begins")
	}
	return run.Begin(ctx, maxRestarts)
}

// endRunWith ends the run of a call that runs as a task when ctx ends, unless stop is called before. A function that
// does not end with ctx then keeps its worker for a minute only.
func endRunWith(ctx context.Context, call *mcp.Call) (stop func() bool) {
	run := task.RunOf(ctx)
	if run == nil || call.TaskID() == "" { // a call that the function of a task makes is no task
		return func() bool { return false }
	}
	return context.AfterFunc(ctx, func() { run.TimeOut(context.Cause(ctx)) })
}

// runTask runs the call of a task.
func (s *Server) runTask(ctx context.Context, run *task.Run) task.Outcome {
	outcome, err := s.runTaskCall(ctx, run)
	if err == nil {
		return outcome
	}
	if errors.Is(err, errStopping) { // of this server, or of one that the function has called
		return task.Outcome{HandedBack: true}
	}
	failure, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ok:
	case ctx.Err() != nil:
		failure = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: context.Cause(ctx).Error()}
	default:
		failure, _ = errors.AsType[*jsonrpc.Error](core{s}.Failed(mcp.MethodToolsCall, err))
	}
	return task.Outcome{Error: failure}
}

// hasToolOf reports whether the tool of a call is offered, to any caller.
func (s *Server) hasToolOf(call *mcp.Call) bool {
	kind, name, err := s.target(call)
	return err == nil && kind == mcp.KindTool && s.Catalog().lookupRaw(kind, name) != nil
}

func (s *Server) runTaskCall(ctx context.Context, run *task.Run) (task.Outcome, error) {
	var stored storedCall
	if err := json.Unmarshal(run.Call, &stored); err != nil {
		return task.Outcome{}, err
	}
	caller := mcp.Caller(stored.Caller)
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodToolsCall, stored.Params)
	if err != nil {
		return task.Outcome{}, err
	}
	call, err := era.NewTaskCall(ctx, run.ID, request, &caller, run.State, run.Answers, taskSink{run})
	if err != nil {
		return task.Outcome{}, err
	}
	defer call.Close()
	if result := era.StoredResult(&call.Call); result != nil {
		return task.Outcome{Result: result}, nil
	}
	result, err := core{s}.ServeProtocol(ctx, &call.Call)
	if err != nil && call.Target() == nil && !s.hasToolOf(&call.Call) { // this replica does not have the tool; another one has accepted the call
		s.options.Logger.Warn("a task is left to replicas that have its tool", "error", err)
		return task.Outcome{HandedBack: true}, nil
	}
	if question, asks := mcp.AsInputRequired(err); asks {
		state, err := call.Ask()
		return task.Outcome{Questions: question.Requests, State: state}, err
	}
	if err != nil {
		return task.Outcome{}, err
	}
	encoded, err := era.TaskResult(result)
	if err != nil {
		return task.Outcome{}, err
	}
	failed, err := jsonscan.Find(encoded, "isError")
	return task.Outcome{Result: encoded, Failed: string(failed) == "true"}, err
}

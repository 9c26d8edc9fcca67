package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// resultOf returns the result of a call: a *mcp.Task if the server continues the call as a task, and
// otherwise the bytes of the server. The questions of a task get the label of the server.
func (c *Client) resultOf(call *mcp.Call, opts *Options, resp *jsonrpc.Response) (mcp.Result, error) {
	switch call.Method() {
	case mcp.MethodToolsCall:
		if era.IsTask(call.Method(), resp.Member("resultType")) {
			return c.taskOf(call, resp)
		}
	case mcp.MethodTasksGet:
		if questions := resp.Member("inputRequests"); questions != nil {
			return c.labelTask(call, opts, resp.Result, questions)
		}
	}
	return mcp.Raw(resp.Result), nil
}

// taskOf decodes the task that a server has made of a call.
func (c *Client) taskOf(call *mcp.Call, resp *jsonrpc.Response) (mcp.Result, error) {
	task := new(mcp.Task)
	err := task.UnmarshalJSON(resp.Result)
	switch {
	case err != nil:
	case !call.Caller.Capabilities.HasExtension(mcp.ExtensionTasks):
		err = errors.New("the server answered with a task, which the caller does not support")
	case task.TaskID == "" || task.Status == "":
		err = errors.New("the server answered with a task without an id or a status")
	}
	if err != nil {
		return nil, invalidResult(call, err)
	}
	return task, nil
}

// awaitTask returns the response with the result of a task of 2025-11-25. created is the response to the
// call, and the result itself if the server has not made a task.
func (c *forwardedCall) awaitTask(created *jsonrpc.Response) (*jsonrpc.Response, error) {
	if jsonscan.KindOf(created.Member(memberTask, "taskId")) != jsonscan.String {
		return created, nil
	}
	member := func(path ...string) json.RawMessage { return created.Member(append([]string{memberTask}, path...)...) }
	resume := c.activity.Pause() // the timeout bounds each request, and not the task
	defer func() { resume() }()
	wait := era.TaskWait{ID: mcp.Subject(mcp.MethodTasksGet, member), Request: func(ctx context.Context, method string, params mcp.Raw) (json.RawMessage, error) {
		resume()
		defer func() { resume = c.activity.Pause() }()
		return c.requestTask(ctx, method, params)
	}}
	resp, err := wait.Wait(c.ctx, workingTask(wait.ID, member))
	switch {
	case err != nil:
		_ = wait.Cancel(context.WithoutCancel(c.ctx)) // otherwise the task ends with its time to live
		return nil, lostTask(err)
	case resp.Error != nil:
		return nil, resp.Error
	}
	return withoutTask(resp)
}

// workingTask returns the state of a task of 2025-11-25, and nil for a task that does not work. member returns the
// members of its state.
func workingTask(id string, member func(path ...string) json.RawMessage) *mcp.Task {
	if string(member("status")) != `"working"` {
		return nil
	}
	state := &mcp.Task{TaskID: id, Status: mcp.TaskWorking}
	if json.Unmarshal(member("pollInterval"), &state.PollIntervalMs) != nil {
		state.PollIntervalMs = 0
	}
	return state
}

// requestTask makes a request about a task of 2025-11-25. For tasks/get, it returns the state in the form of the
// extension. When the task does not work any more, requestTask requests the result; during that request, the server asks
// its questions.
func (c *forwardedCall) requestTask(ctx context.Context, method string, params mcp.Raw) (json.RawMessage, error) {
	resp, err := c.client.Do(ctx, method, params, era.CallOptions{})
	if err != nil || method != mcp.MethodTasksGet {
		return nil, err
	}
	id := mcp.Subject(method, resp.Member)
	if state := workingTask(id, resp.Member); state != nil {
		return state.AppendJSON(nil)
	}
	state := mcp.Task{TaskID: id, Status: mcp.TaskCompleted}
	result, err := c.client.Do(ctx, mcp.MethodTasksResult, params, era.CallOptions{})
	_, lost := errors.AsType[*jsonrpc.CallError](err)
	failure, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		state.Result = result.Result
	case answered && !lost:
		state.Status = mcp.TaskFailed
		if state.Error, err = json.Marshal(failure); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	return state.AppendJSON(nil)
}

// lostTask returns the error of a request about a task. It is not the answer of the call, which may have
// been executed.
func lostTask(err error) error {
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		err = failed.Err
	}
	return &jsonrpc.CallError{Method: mcp.MethodToolsCall, Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// withoutTask removes the id of the task from a result.
func withoutTask(resp *jsonrpc.Response) (*jsonrpc.Response, error) {
	meta := resp.Member(memberMeta)
	if resp.Member(memberMeta, mcp.MetaRelatedTask) == nil {
		return resp, nil
	}
	meta, err := jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaRelatedTask})
	if err != nil {
		return nil, err
	}
	result, err := jsonscan.Splice(nil, resp.Result, jsonscan.Edit{Name: memberMeta, Value: meta})
	return &jsonrpc.Response{ID: resp.ID, Result: result}, err
}

// labelTask returns the state of a task in which the questions have the label of the server. The keys stay
// unchanged. The error is a *mcp.LimitError if the server asks too much.
func (c *Client) labelTask(call *mcp.Call, opts *Options, result, raw json.RawMessage) (mcp.Result, error) {
	questions, err := jsonscan.ReadObject(raw)
	if jsonscan.KindOf(raw) != jsonscan.Object || err != nil {
		return nil, invalidResult(call, fmt.Errorf("inputRequests of a task: %v", err))
	}
	id := string(call.Member("taskId"))
	all := []byte{'{'}
	asked := 0
	for m := range questions.All() {
		var question mcp.InputRequest
		if err := json.Unmarshal(m.Value, &question); err != nil {
			return nil, invalidResult(call, fmt.Errorf("the server's question %s: %w", jsonscan.Quote(m.Name()), err))
		}
		if err := c.limits.checkSize(question); err != nil {
			return nil, invalidResult(call, err)
		}
		if c.suspended.seen.isNew(taskQuestion{opts.ServerLabel, call.Caller.Principal, id, m.Name()}) {
			asked++
		}
		labelled, err := withServerName(question, opts.ServerLabel)
		if err != nil {
			return nil, invalidResult(call, fmt.Errorf("the server's question %s: %w", jsonscan.Quote(m.Name()), err))
		}
		changed, err := jsonscan.Splice(nil, m.Value, jsonscan.Edit{Name: "params", Value: labelled.Params})
		if err != nil {
			return nil, err
		}
		if len(all) > 1 {
			all = append(all, ',')
		}
		all = append(append(append(all, m.Key...), ':'), changed...)
	}
	if asked > 0 {
		if err := c.suspended.countQuestions(opts.ServerLabel, call.Caller.Principal, asked, c.limits); err != nil {
			return nil, invalidResult(call, err)
		}
	}
	if opts.ServerLabel == "" {
		return mcp.Raw(result), nil
	}
	labelled, err := jsonscan.Splice(nil, result, jsonscan.Edit{Name: "inputRequests", Value: append(all, '}')})
	return mcp.Raw(labelled), err
}

func invalidResult(call *mcp.Call, err error) error {
	return &jsonrpc.CallError{Method: call.Method(), Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// A taskQuestion identifies a question of a task.
type taskQuestion struct{ label, principal, task, key string }

// Limits of seenQuestions.
const (
	maxSeen      = 4096
	seenLifetime = time.Hour
)

// seenQuestions are the questions of tasks that were counted: a client that asks for the state of a task
// gets the same questions again. A question that was forgotten is counted again.
type seenQuestions struct {
	mu   sync.Mutex
	last map[taskQuestion]time.Time
}

func (s *seenQuestions) isNew(q taskQuestion) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	_, known := s.last[q]
	if !known && len(s.last) >= maxSeen {
		for other, last := range s.last {
			if now.Sub(last) > seenLifetime {
				delete(s.last, other)
			}
		}
		for other := range s.last { // any, if all are recent
			if len(s.last) < maxSeen {
				break
			}
			delete(s.last, other)
		}
	}
	if s.last == nil {
		s.last = make(map[taskQuestion]time.Time)
	}
	s.last[q] = now
	return !known
}

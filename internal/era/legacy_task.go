package era

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tasks of 2025-11-25, basic/utilities/tasks: a client asks for a task in the params of the call, and
// waits for its result with tasks/result, during which it is asked.

// maxStatusMessage is how much of the text of a failed result is in the status message of its task, in bytes.
const maxStatusMessage = 1000

// A legacyTask is a [mcp.Task] in the form of 2025-11-25.
type legacyTask struct {
	TaskID        string         `json:"taskId"`
	Status        mcp.TaskStatus `json:"status"`
	StatusMessage string         `json:"statusMessage,omitempty"`
	CreatedAt     string         `json:"createdAt"`
	LastUpdatedAt string         `json:"lastUpdatedAt"`
	TTL           *int64         `json:"ttl"`
	PollInterval  int64          `json:"pollInterval,omitempty"`
}

// encodeLegacyTask returns a task as tasks/get returns it. A task with an error of its tool has failed in
// 2025-11-25, and its status message says why; since 2026-07-28, it is completed.
func encodeLegacyTask(t *mcp.Task) (json.RawMessage, error) {
	status, message := t.Status, t.StatusMessage
	var result mcp.CallToolResult
	if status == mcp.TaskCompleted && json.Unmarshal(t.Result, &result) == nil && result.IsError {
		message = result.Text()
		status, message = mcp.TaskFailed, strings.ToValidUTF8(message[:min(len(message), maxStatusMessage)], "")
	}
	return json.Marshal(legacyTask{t.TaskID, status, message, t.CreatedAt, t.LastUpdatedAt, t.TTLMs, t.PollIntervalMs})
}

// writeLegacyTask appends the result of a call that continues as a task.
func writeLegacyTask(task *mcp.Task, reply *jsonrpc.Reply) error {
	encoded, err := encodeLegacyTask(task)
	if err != nil {
		return err
	}
	return reply.Write(mcp.Raw(`{"task":` + string(encoded) + `}`))
}

// withTasks returns the caller of a call that its client wants to become a task: the core sees a client that
// supports the extension.
func withTasks(caller *mcp.Caller) *mcp.Caller {
	with := *caller
	with.Capabilities.Extensions = maps.Clone(caller.Capabilities.Extensions)
	if with.Capabilities.Extensions == nil {
		with.Capabilities.Extensions = make(map[string]json.RawMessage, 1)
	}
	with.Capabilities.Extensions[mcp.ExtensionTasks] = json.RawMessage(emptyObject)
	return &with
}

// wantsTask reports whether the client wants a call to become a task. If so, the client waits for a task, and accepts
// no other result. The error says that the tool does not run as a task.
func (b *binding) wantsTask(ctx context.Context, req *jsonrpc.Request, caller *mcp.Caller) (bool, error) {
	if caller.Version != mcp.Version20251125 || req.Method != mcp.MethodToolsCall || req.Member("task") == nil {
		return false, nil
	}
	if b.server.core.RefusesVisibleTask(ctx, caller, mcp.Subject(req.Method, req.Member)) {
		return false, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "the tool does not run as a task: call it without the parameter task"}
	}
	return true, nil
}

// asTask returns a task for the result of a call if the client waits for a task: the task that another server keeps, or
// a new task that returns the result. A tool or its server may decide against a task, but the client reads only a task.
// The error says that the call was executed.
func (s *Server) asTask(ctx context.Context, c *call, result mcp.Result) (*mcp.Task, error) {
	if task, ok := result.(*mcp.Task); ok {
		return task, nil
	}
	encoded, err := result.AppendJSON(nil)
	if err != nil {
		return nil, lostResult(err)
	}
	c.Store(storedResult, encoded)
	task, err := s.becomeTask(ctx, c, mcp.TaskRequest{})
	if err != nil {
		return nil, lostResult(err)
	}
	return task, nil
}

// lostResult returns the error of a call that was executed when its task could not be created.
func lostResult(err error) error {
	message := "the call was executed, but its result is lost: no task could be created for it"
	if failure, ok := errors.AsType[*jsonrpc.Error](err); ok {
		message += ": " + failure.Message
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: message}
}

// storedResult is the key of the result of a call that was complete when it became a task.
const storedResult = "io.dovetail/result"

// StoredResult returns the result of a call that was complete when it became a task, and nil for a call that
// has to run.
func StoredResult(c *mcp.Call) json.RawMessage {
	result, _ := c.Load(storedResult)
	return result
}

// defaultTaskTTL is the time to live of a task whose tool has none.
const defaultTaskTTL = 24 * time.Hour

// taskTTL returns the time to live of a call's task. ttl is the tool's, and a client of 2025-11-25 may want less.
func taskTTL(c *call, ttl time.Duration) time.Duration {
	if ttl <= 0 {
		ttl = defaultTaskTTL
	}
	var wanted int64 // milliseconds
	if c.Caller.Version != mcp.Version20251125 || json.Unmarshal(c.Member("task", "ttl"), &wanted) != nil || wanted <= 0 || wanted >= ttl.Milliseconds() {
		return ttl
	}
	return time.Duration(wanted) * time.Millisecond
}

// handleLegacyTask answers the requests about tasks of a session of 2025-11-25.
func (b *binding) handleLegacyTask(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	t := &taskClient{server: b.server, from: from, req: req, caller: withTasks(caller)}
	t.wait = TaskWait{ID: mcp.Subject(mcp.MethodTasksGet, req.Member), Request: t.serve, Watch: t.watch, Local: true, Answer: t.ask}
	if req.Method != mcp.MethodTasksResult {
		t.wait.MayRetry = func(error, int) bool { return false } // the client asks again
	}
	task, err := t.wait.Get(ctx)
	switch {
	case err != nil:
		return t.convert(err)
	case req.Method == mcp.MethodTasksResult:
		return t.result(ctx, reply)
	case req.Method == mcp.MethodTasksCancel && task.Status.Ended():
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the task has ended already: it is " + string(task.Status)}
	case req.Method == mcp.MethodTasksCancel:
		if err := t.wait.Cancel(ctx); err != nil {
			return t.convert(err)
		}
		if task, err = t.wait.Get(ctx); err != nil {
			return t.convert(err)
		}
	}
	encoded, err := encodeLegacyTask(task)
	if err != nil {
		return err
	}
	return reply.Write(mcp.Raw(encoded))
}

// A taskClient is a session of 2025-11-25 that asks about one task.
type taskClient struct {
	server *Server
	from   jsonrpc.Peer
	req    *jsonrpc.Request
	caller *mcp.Caller
	wait   TaskWait
}

// serve makes one request of the extension for the task.
func (t *taskClient) serve(ctx context.Context, method string, params mcp.Raw) (json.RawMessage, error) {
	req, err := jsonrpc.NewRequest(t.req.ID, method, json.RawMessage(params))
	if err != nil {
		return nil, err
	}
	c := t.server.newCall(ctx, t.from, req, t.caller)
	defer c.close()
	result, err := t.server.core.ServeProtocol(ctx, &c.Call)
	if err != nil {
		return nil, err
	}
	return result.AppendJSON(nil)
}

var errStopping = &jsonrpc.Error{Code: jsonrpc.Busy, Message: "the server is shutting down; ask for the result of the task again later"}

// result waits for the result of the task and asks its questions. It ends when the server shuts down: the
// client asks again.
func (t *taskClient) result(ctx context.Context, reply *jsonrpc.Reply) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	waiting.Go(func() {
		select {
		case <-t.server.core.Stopping():
			end(errStopping)
		case <-ctx.Done():
		}
	})
	resp, err := t.wait.Wait(ctx, nil)
	if err != nil {
		return t.convert(err)
	}
	if resp.Error != nil {
		return ErrorFor(t.caller.Version, resp.Error)
	}
	result, err := t.withRelated(resp.Result)
	if err != nil {
		return err
	}
	return t.server.writeLegacy(mcp.MethodToolsCall, t.caller.Version, mcp.Raw(result), reply)
}

// convert returns the error for the client.
func (t *taskClient) convert(err error) error {
	_, limited := errors.AsType[*mcp.LimitError](err)
	switch {
	case limited:
		return errRounds
	case errors.Is(err, ErrTaskState):
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	case errors.Is(err, ErrTaskCancelled):
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the task was cancelled"}
	}
	return ErrorFor(t.caller.Version, err)
}

// watch subscribes to the task.
func (t *taskClient) watch(ctx context.Context, ready func(accepted bool), changed func(state json.RawMessage)) error {
	call := mcp.NewCall(t.req, t.caller, nil)
	accepted, stop, err := t.server.core.Watch(ctx, &call, mcp.SubscriptionFilter{TaskIDs: []string{t.wait.ID}}, func(mcp.Change) { changed(nil) })
	if err != nil {
		return err
	}
	defer stop()
	ready(len(accepted.TaskIDs) > 0)
	<-ctx.Done()
	return context.Cause(ctx)
}

// withRelated returns a message that belongs to the task, a result or params, with the id of the task in
// _meta.
func (t *taskClient) withRelated(message json.RawMessage) (json.RawMessage, error) {
	members, err := jsonscan.ReadObject(message)
	if err != nil {
		return nil, err
	}
	meta := members.Get(memberMeta)
	if jsonscan.KindOf(meta) != jsonscan.Object {
		meta = json.RawMessage(emptyObject)
	}
	related := json.RawMessage(`{"taskId":` + string(t.req.Member("taskId")) + `}`)
	if meta, err = jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaRelatedTask, Value: related}); err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, message, jsonscan.Edit{Name: memberMeta, Value: meta})
}

// ask asks the questions of the task one after the other. It returns the answers also if a later question fails.
func (t *taskClient) ask(ctx context.Context, questions map[string]mcp.InputRequest) (answers json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, InputTimeout)
	defer cancel()
	for _, key := range sortedKeys(questions) {
		params, err := questionFor(t.caller.Version, questions[key])
		if err != nil {
			return answers, err
		}
		encoded, err := appendParams(nil, params)
		if err != nil {
			return answers, err
		}
		if encoded, err = t.withRelated(encoded); err != nil {
			return answers, err
		}
		resp, err := t.from.Call(ctx, questions[key].Method, mcp.Raw(encoded))
		if err != nil {
			return answers, err
		}
		if answers == nil {
			answers = json.RawMessage(emptyObject)
		}
		if answers, err = jsonscan.Splice(nil, answers, jsonscan.Edit{Name: key, Value: resp.Result}); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

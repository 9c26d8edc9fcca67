package era

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A TaskSink receives what a call reports that runs as a task.
type TaskSink interface {
	// Notify handles a notification of the call: its progress or a log message.
	Notify(ctx context.Context, method string, params jsonrpc.Appender) error
	// Save stores the state of the call for a run that begins again.
	Save(ctx context.Context, state json.RawMessage)
}

// A TaskCall is one run of a call in the background.
type TaskCall struct{ call }

// NewTaskCall returns the call of a task. state is the state of an earlier run, and answers are the answers to the
// questions of that run.
func NewTaskCall(ctx context.Context, id string, req *jsonrpc.Request, caller *mcp.Caller, state json.RawMessage, answers map[string]json.RawMessage, sink TaskSink) (*TaskCall, error) {
	c := &TaskCall{call{ctx: ctx, from: &background{id: id, sink: sink}}}
	if err := json.Unmarshal(state, &c.state); err != nil {
		return nil, err
	}
	for key, answer := range answers {
		c.answer(key, answer)
	}
	c.Call = mcp.NewCall(req, caller, &c.call)
	return c, nil
}

// Ask ends a run that asks. It returns the state for the next run. The error says that the call asks too
// often.
func (c *TaskCall) Ask() (state json.RawMessage, err error) {
	c.endRun()
	if err := c.beginRound(); err != nil {
		return nil, err
	}
	c.continues = true
	return c.encodeState(), nil
}

// Close ends the run, and the call unless it asks.
func (c *TaskCall) Close() { c.close() }

// encodeState returns the state as JSON. The lock must be held, unless the run has ended.
func (c *call) encodeState() json.RawMessage {
	state, err := json.Marshal(&c.state)
	if err != nil {
		panic(err) // impossible: all values were scanned when they were received, or encoded by the core
	}
	return state
}

// A background is the peer of a call that runs as a task: it reports to the sink, since no client waits.
type background struct {
	jsonrpc.Peer // nil: only Notify is called
	id           string
	sink         TaskSink

	saving sync.Mutex // held while a state is saved, so that an older one is not saved after it
}

func (b *background) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	return b.sink.Notify(ctx, method, params)
}

// save saves the state of the call. The call is not locked while the store is slow.
func (b *background) save(c *call) {
	b.saving.Lock()
	defer b.saving.Unlock()
	c.mu.Lock()
	state := c.encodeState()
	c.mu.Unlock()
	b.sink.Save(c.ctx, state)
}

// TaskParams returns the params of a call for its task: without the members that belong to one request,
// since the state of the task has the answers, and with a progress token, so that functions report
// progress.
func TaskParams(call *mcp.Call) (json.RawMessage, error) {
	meta := call.Member(memberMeta)
	if jsonscan.KindOf(meta) != jsonscan.Object {
		meta = json.RawMessage(emptyObject)
	}
	meta, err := jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaProgressToken, Value: json.RawMessage("0")})
	if err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, call.Params(), jsonscan.Edit{Name: memberMeta, Value: meta},
		jsonscan.Edit{Name: memberState}, jsonscan.Edit{Name: memberResponses}, jsonscan.Edit{Name: "task"})
}

// TaskResult encodes the result of a call for its task, with the resultType that it would have without a
// task. Clients of versions before 2026-07-28 get the result without that member.
func TaskResult(result mcp.Result) (json.RawMessage, error) {
	encoded, err := result.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, encoded, jsonscan.Edit{Name: "resultType", Value: resultComplete})
}

// becomeTask answers a call with a task, which continues in the background.
func (s *Server) becomeTask(ctx context.Context, c *call, request mcp.TaskRequest) (*mcp.Task, error) {
	c.ID()
	request.TTL = taskTTL(c, request.TTL)
	task, err := s.core.CreateTask(ctx, &c.Call, request, c.encodeState())
	c.continues = err == nil
	return task, err
}

// resultTask is the type of a result that is a task.
var resultTask = json.RawMessage(`"` + string(mcp.ResultTask) + `"`)

// writeTask appends the result of a modern call that continues as a task.
func (s *Server) writeTask(task *mcp.Task, version mcp.Version, reply *jsonrpc.Reply) error {
	start := len(reply.Buf)
	created := *task
	created.ResultType = ""
	if err := s.writeModern(mcp.MethodTasksGet, version, &created, reply); err != nil {
		return err
	}
	encoded := append([]byte(nil), reply.Buf[start:]...)
	var err error
	reply.Buf, err = jsonscan.Splice(reply.Buf[:start], encoded, jsonscan.Edit{Name: "resultType", Value: resultTask})
	return err
}

// checkTasks returns an error if a filter has tasks and the client does not support them.
func checkTasks(caller *mcp.Caller, filter *mcp.SubscriptionFilter) error {
	if len(filter.TaskIDs) > 0 && !caller.Capabilities.HasExtension(mcp.ExtensionTasks) {
		return mcp.MissingExtension(mcp.ExtensionTasks)
	}
	return nil
}

// notifyTask sends the state of a task to a subscriber. A task that does not exist any more is not sent.
func (s *Server) notifyTask(ctx context.Context, peer jsonrpc.Peer, caller *mcp.Caller, id string, tag mcp.Meta) error {
	task, err := s.core.Task(ctx, caller, id)
	if err != nil {
		return nil //nolint:nilerr // the client asks for the state, and gets the error
	}
	if err := task.Meta.Set(mcp.MetaSubscriptionID, tag.Get(mcp.MetaSubscriptionID)); err != nil {
		return err
	}
	return s.notify(ctx, peer, caller, mcp.NotificationTasks, task)
}

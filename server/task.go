package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A TaskMode says whether calls of a tool continue as tasks, for clients that support tasks (SEP-2663,
// and the tasks of 2025-11-25). The client gets the id of the task immediately, and asks for the result
// later, also over another connection and after a restart. The function stays the same: [Elicit] and
// [Sample] make the task wait for input, [Request.Progress] sets its status message, and [Once] keeps a
// value when the call begins again. Arguments are validated, and guards decide, before a task is
// created, and again when it runs.
//
// A task survives what [Options].Store survives. When the replica that runs a task has ended before the
// function has begun, another replica begins the call. After that, the task fails, unless the function may begin
// again from its first line: see [Tool].MaxRestarts.
type TaskMode int

const (
	// TaskForbidden: the caller waits for the result.
	TaskForbidden TaskMode = iota
	// TaskOptional: calls continue as tasks if the client supports tasks. Other clients wait.
	TaskOptional
	// TaskRequired is like TaskOptional, and other clients get an error: for calls that take longer than
	// a connection lasts.
	TaskRequired
)

// String returns the name of the mode in the protocol: forbidden, optional or required.
func (m TaskMode) String() string {
	switch m {
	case TaskForbidden:
		return "forbidden"
	case TaskOptional:
		return "optional"
	case TaskRequired:
		return "required"
	}
	return fmt.Sprintf("TaskMode(%d)", int(m))
}

// defaultMaxTasks is the default of [Options].MaxTasks.
const defaultMaxTasks = 1000

// execution returns the member execution of a tool's definition, which clients of 2025-11-25 read.
func (m TaskMode) execution() *mcp.ToolExecution {
	if m == TaskForbidden {
		return nil
	}
	return &mcp.ToolExecution{TaskSupport: m.String()}
}

// defaultRestarts is how often a tool is restarted whose annotations say that this does no harm.
const defaultRestarts = 3

// maxRestarts returns how often the function of a task may begin again.
func (t *Tool) maxRestarts() int {
	says := func(hint *bool) bool { return hint != nil && *hint }
	if t.MaxRestarts == 0 && t.Annotations != nil && (says(t.Annotations.ReadOnlyHint) || says(t.Annotations.IdempotentHint)) {
		return defaultRestarts
	}
	return max(0, t.MaxRestarts)
}

// becomeTask returns the error of a call that must continue as a task, and nil for a call that runs now. The
// function of a call that runs as a task begins then.
func (t *Tool) becomeTask(ctx context.Context, call *mcp.Call) error {
	switch {
	case call.TaskID() != "":
		return beginFunction(ctx, call, t.maxRestarts())
	case t.Task == TaskForbidden:
		return nil
	case t.Task == TaskRequired && !call.Caller.Capabilities.HasExtension(mcp.ExtensionTasks):
		return mcp.MissingExtension(mcp.ExtensionTasks)
	}
	return call.BecomeTask(mcp.TaskRequest{TTL: t.TTL})
}

// tasks are the tasks of a server. The zero value has none.
type tasks struct {
	mu      sync.Mutex
	engine  *task.Engine // nil until it is needed
	stopped bool
	unwatch func() // ends the watch for the first tool with tasks; nil if there was none

	reading sync.Mutex     // held while the catalog is read after a change
	readers sync.WaitGroup // one that reads, and one that waits to read

	polls *quota.Quota // of the subscriptions to tasks that entries keep
}

// taskEngine returns the engine, which it creates when it is needed first.
func (s *Server) taskEngine() (*task.Engine, error) {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	switch {
	case s.tasks.engine != nil:
		return s.tasks.engine, nil
	case s.tasks.stopped:
		return nil, errStopping
	}
	s.tasks.engine = task.New(task.Config{
		Store: s.store.get(), Key: s.dataKey, Run: s.runTask, Retained: s.taskRoom(), Shared: s.options.Store != nil,
		Max: s.options.MaxTasks, Logger: s.options.Logger,
	})
	return s.tasks.engine, nil
}

// taskRoom returns the limit of what tasks keep: half of what clients may leave behind, so that they leave room for
// sessions, also in a store that both use. What is in Options.Store does not count for the memory of this process.
func (s *Server) taskRoom() *quota.Retained {
	if s.options.Store != nil {
		return quota.NewRetained(s.halfRetained())
	}
	return s.retained.Part(s.halfRetained())
}

// startTasks begins to run tasks that other replicas, or an earlier process, have created, as soon as a tool has tasks. A mounted server
// may list its tools long after the start.
func (s *Server) startTasks() {
	if s.options.Store == nil {
		return
	}
	unread := make(chan struct{}, 1)
	unwatch := s.changes.watchAll(func(change mcp.Change) {
		if change.Kind != mcp.KindTool || change.URI != "" {
			return
		}
		s.tasks.mu.Lock()
		defer s.tasks.mu.Unlock()
		if s.tasks.stopped {
			return
		}
		select {
		case unread <- struct{}{}:
			s.tasks.readers.Go(func() { // a provider may hold a lock that its catalog needs
				s.tasks.reading.Lock()
				defer s.tasks.reading.Unlock()
				<-unread
				s.startWorkers()
			})
		default: // the reader that waits will see this change, too
		}
	})
	s.tasks.mu.Lock()
	s.tasks.unwatch = unwatch
	stopped := s.tasks.stopped
	s.tasks.mu.Unlock()
	if stopped {
		unwatch()
		return
	}
	s.startWorkers() // after the watch has begun, so that no change is missed
}

// startWorkers begins to run tasks if a tool has any. Then it ends the watch.
func (s *Server) startWorkers() {
	if !s.Catalog().hasTasks() {
		return
	}
	if engine, err := s.taskEngine(); err == nil {
		engine.Start()
	}
	s.tasks.endWatch()
}

// endWatch ends the watch for the first tool with tasks, if there is one.
func (t *tasks) endWatch() {
	t.mu.Lock()
	unwatch := t.unwatch
	t.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
}

// stopTasks makes this replica begin no more tasks. wait waits for the tasks that run until ctx ends, and then interrupts
// them.
func (s *Server) stopTasks() (wait func(ctx context.Context) error) {
	s.tasks.mu.Lock()
	s.tasks.stopped = true
	engine := s.tasks.engine
	s.tasks.mu.Unlock()
	s.tasks.endWatch()
	if engine != nil {
		engine.Drain()
	}
	return func(ctx context.Context) error {
		s.tasks.readers.Wait()
		if engine == nil {
			return nil
		}
		return engine.Stop(ctx)
	}
}

// hasTasks reports whether calls of any tool may continue as tasks.
func (c *Catalog) hasTasks() bool {
	for e := range c.All(mcp.KindTool) {
		if e.Task != TaskForbidden {
			return true
		}
	}
	return false
}

// mayHaveTasks reports whether there may be tasks, of this server or of an entry.
func (c *Catalog) mayHaveTasks() bool {
	if c.partial || c.resolve != nil { // some tools may not be listed
		return true
	}
	for e := range c.All(mcp.KindTool) {
		if e.Task != TaskForbidden || e.Tasks != nil {
			return true
		}
	}
	return false
}

// RefusesVisibleTask implements [era.Core].
func (c core) RefusesVisibleTask(ctx context.Context, caller *mcp.Caller, tool string) bool {
	e, _ := c.Catalog().LookupFor(ctx, caller, mcp.KindTool, tool)
	return e != nil && e.Task == TaskForbidden
}

// A storedCall is what a task stores of its call.
type storedCall struct {
	Params json.RawMessage `json:"params"`
	Caller storedCaller    `json:"caller"`
}

// A storedCaller is an [mcp.Caller] in JSON.
type storedCaller struct {
	Version      mcp.Version            `json:"version"`
	Info         *mcp.Implementation    `json:"info,omitempty"`
	Capabilities mcp.ClientCapabilities `json:"capabilities"`
	LogLevel     mcp.LoggingLevel       `json:"logLevel,omitempty"`
	Principal    string                 `json:"principal,omitempty"`
	Network      string                 `json:"network,omitzero"`
}

// CreateTask implements [era.Core].
func (c core) CreateTask(ctx context.Context, call *mcp.Call, request mcp.TaskRequest, state json.RawMessage) (*mcp.Task, error) {
	engine, err := c.taskEngine()
	if err != nil {
		return nil, err
	}
	params, err := era.TaskParams(call)
	if err != nil {
		return nil, err
	}
	caller := storedCaller(*call.Caller)
	if caller.Principal != "" {
		caller.Network = "" // it is not needed
	}
	stored, err := jsonvalue.Marshal(storedCall{params, caller})
	if err != nil {
		return nil, err
	}
	executed := era.StoredResult(call) != nil
	created, err := engine.Create(ctx, task.Spec{
		Principal: call.Caller.Principal, Network: caller.Network, TaskRequest: request, Call: stored, State: state, Executed: executed,
	})
	busy, isBusy := errors.AsType[*jsonrpc.Error](err)
	isBusy = isBusy && busy.Code == jsonrpc.Busy
	if executed && (isBusy || errors.Is(err, task.ErrNotCreated)) {
		if !isBusy {
			c.options.Logger.Error("the result of a call cannot be stored as a task", "error", err)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("the server cannot keep its result with %d bytes", len(state))}
	}
	return created, c.taskError(ctx, call, err)
}

var errUnknownTask = invalidParams("there is no such task: it has another owner, has expired or never existed")

// taskError returns the error for the client.
func (s *Server) taskError(ctx context.Context, call *mcp.Call, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, task.ErrUnknown) {
		return errUnknownTask
	}
	if tooLarge, ok := errors.AsType[*task.SizeError](err); ok {
		return invalidParams("%v", tooLarge)
	}
	if errors.Is(err, task.ErrNotCreated) && ctx.Err() == nil {
		s.options.Logger.Error("a task cannot be stored", "error", err)
		message := "the server cannot reach its store of tasks; the call is not executed, try again later"
		if errors.Is(err, store.ErrFull) {
			message = "the server has no room for another task; the call is not executed, try again later"
		}
		return &jsonrpc.Error{Code: jsonrpc.Busy, Message: message}
	}
	if errors.Is(err, store.ErrFull) {
		return &jsonrpc.Error{Code: jsonrpc.Busy, Message: "the server has no room for the answers to the task's questions, try again later"}
	}
	if errors.Is(err, task.ErrMayBeCreated) {
		s.options.Logger.Error("a task may not be stored", "error", err)
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the call may have been executed: the server has lost its store of tasks while it stored the task"}
	}
	_, err = s.convertError(ctx, call, err)
	return err
}

// Task implements [era.Core].
func (c core) Task(ctx context.Context, caller *mcp.Caller, id string) (*mcp.Task, error) {
	entry, inner, _, err := c.openTask(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	if entry != nil {
		return c.entryTaskState(ctx, caller, id, entry, inner)
	}
	engine, err := c.taskEngine()
	if err != nil {
		return nil, err
	}
	return engine.Get(ctx, id, caller.Principal)
}

// watchTasks begins to report changes of the caller's tasks in the filter.
func (s *Server) watchTasks(ctx context.Context, call *mcp.Call, to *subscription) error {
	ids := to.filter.TaskIDs
	to.filter.TaskIDs = nil
	for _, id := range ids {
		stop, err := s.watchTask(ctx, call.Caller, id, func() { to.notify(mcp.Change{TaskID: id}) })
		if errors.Is(err, task.ErrUnknown) {
			continue
		}
		if err != nil {
			return s.taskError(ctx, call, err)
		}
		to.filter.TaskIDs = append(to.filter.TaskIDs, id)
		to.stops = append(to.stops, stop)
	}
	return nil
}

// taskFeature is the methods of [mcp.ExtensionTasks].
var taskFeature = feature{
	methods: []method{
		{name: mcp.MethodTasksGet, handle: (*Server).serveTask},
		{name: mcp.MethodTasksUpdate, handle: (*Server).serveTask},
		{name: mcp.MethodTasksCancel, handle: (*Server).serveTask},
	},
	needed: func(c *Catalog, _ bool) bool { return c.hasTasks() },
	declare: func(has *mcp.ServerCapabilities) {
		declareExtension(has, mcp.ExtensionTasks, "{}")
		has.Tasks = json.RawMessage(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	},
	offered: func(s *Server) bool { return s.Catalog().mayHaveTasks() },
	watch:   (*Server).watchTasks,
	start:   (*Server).startTasks,
	stop:    (*Server).stopTasks,
}

// serveTask answers a method of [mcp.ExtensionTasks].
func (s *Server) serveTask(ctx context.Context, call *mcp.Call, _ *Entry) (mcp.Result, error) {
	if !call.Caller.Capabilities.HasExtension(mcp.ExtensionTasks) {
		return nil, mcp.MissingExtension(mcp.ExtensionTasks)
	}
	id, err := stringMember(call, "taskId")
	if err != nil {
		return nil, err
	}
	entry, inner, sealed, err := s.openTask(ctx, call.Caller, id)
	switch {
	case err != nil:
		return nil, err
	case entry != nil:
		return s.serveEntryTask(ctx, call, entry, inner)
	case sealed:
		return nil, errUnknownTask
	}
	engine, err := s.taskEngine()
	if err != nil {
		return nil, err
	}
	var result mcp.Result = mcp.Raw("{}")
	switch principal := call.Caller.Principal; call.Method() {
	case mcp.MethodTasksGet:
		result, err = engine.Get(ctx, id, principal)
	case mcp.MethodTasksCancel:
		err = engine.Cancel(ctx, id, principal)
	case mcp.MethodTasksUpdate:
		var answers map[string]json.RawMessage
		if answers, err = answersOf(call); err == nil {
			err = engine.Answer(ctx, id, principal, answers)
		}
	}
	if err != nil {
		return nil, s.taskError(ctx, call, err)
	}
	return result, nil
}

// answersOf returns the answers of tasks/update by key.
func answersOf(call *mcp.Call) (map[string]json.RawMessage, error) {
	raw := call.Member("inputResponses")
	members, err := jsonscan.ReadObject(raw)
	if jsonscan.KindOf(raw) != jsonscan.Object || err != nil {
		return nil, invalidParams("inputResponses must be an object of answers by their keys")
	}
	answers := make(map[string]json.RawMessage, members.Len())
	for m := range members.All() {
		if jsonscan.KindOf(m.Value) != jsonscan.Object {
			return nil, invalidParams("inputResponses: the answer to %.80q must be an object", m.Name())
		}
		answers[m.Name()] = m.Value
	}
	return answers, nil
}

// checkTask rejects options of a tool that contradict each other.
func (t *Tool) checkTask() error {
	switch {
	case t.Task < TaskForbidden || t.Task > TaskRequired:
		return fmt.Errorf("there is no mode %v of tasks", t.Task)
	case t.Task == TaskForbidden && t.TTL != 0:
		return errors.New("TTL needs Task")
	case t.TTL < 0 || t.TTL > task.MaxTTL:
		return fmt.Errorf("TTL is %v, expected at most %v", t.TTL, task.MaxTTL)
	}
	return nil
}

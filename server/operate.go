package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Stats are numbers of a server in this process, for its operator; see [Server.Stats].
type Stats struct {
	// Retained is how many bytes clients have left behind in this process; see [Options].RetainedBytes.
	Retained transport.Usage
	// TaskBytes is how many bytes tasks keep until they expire: those of all replicas, with a Store.
	TaskBytes transport.Usage
	// RunningTasks is how many tasks run in this process; see [Options].MaxTasks.
	RunningTasks transport.Usage
	// These count since the server was made, in this process. An attempt begins a task, or continues it when its questions
	// were answered. A repeated one follows an attempt that has ended without an outcome. A lease lapses when the replica of an attempt
	// was silent for too long. A task is abandoned when it fails without the outcome of its function.
	TaskAttempts, RepeatedAttempts, LapsedLeases, AbandonedTasks uint64
}

// Stats returns the numbers of the server at this moment. It does not use the store.
func (s *Server) Stats() Stats {
	stats := Stats{Retained: s.retained.Usage()}
	engine := s.startedTasks()
	if engine == nil {
		return stats
	}
	tasks := engine.Stats()
	stats.TaskBytes = transport.Usage{Used: tasks.Kept, Max: tasks.MaxKept}
	stats.RunningTasks = transport.Usage{Used: tasks.Running, Max: tasks.MaxRunning}
	stats.TaskAttempts, stats.RepeatedAttempts, stats.LapsedLeases, stats.AbandonedTasks = tasks.Attempts, tasks.Repeated, tasks.Lapsed, tasks.Abandoned
	return stats
}

// startedTasks returns the engine of tasks, or nil if no task was needed yet.
func (s *Server) startedTasks() *task.Engine {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	return s.tasks.engine
}

// A TaskState is the state of a task, for operators: it is not restricted to one client.
type TaskState struct {
	ID        string         `json:"id"`
	Principal string         `json:"principal,omitempty"`
	Network   string         `json:"network,omitempty"` // of a client without Principal
	Tool      string         `json:"tool,omitempty"`    // absent if the task has ended, or has large arguments
	Status    mcp.TaskStatus `json:"status"`
	Message   string         `json:"message,omitempty"`
	Waits     bool           `json:"waits,omitempty"` // for a worker, at any replica
	Created   time.Time      `json:"created"`
	Updated   time.Time      `json:"updated"`
	Attempts  int            `json:"attempts,omitempty"`
	Cancelled bool           `json:"cancelled,omitempty"` // that was asked for; a function that runs may go on
}

// maxTaskStates is the maximum number of tasks that [Server.Tasks] returns.
const maxTaskStates = 1000

// Errors of operations with tasks, to be compared with [errors.Is].
var (
	// ErrUnknownTask means that no task has the id.
	ErrUnknownTask = errors.New("server: there is no task with this id")
	// ErrTaskNotWaiting means that a task does not wait for a worker: it runs, asks its client, or has ended.
	ErrTaskNotWaiting = errors.New("server: the task does not wait for a worker")
)

// Tasks returns the states of tasks, oldest first, and of at most 1,000: those that expire first. With open, those that have ended
// are left out. With a Store, they are the tasks of all replicas; a process that has just started may not know all of them. Tasks that
// an entry keeps elsewhere, such as an upstream of a bridge, are not among them. It reads each task from the store, whose error it may
// return.
func (s *Server) Tasks(ctx context.Context, open bool) ([]TaskState, error) {
	engine := s.startedTasks()
	if engine == nil {
		return nil, nil
	}
	states, err := engine.States(ctx, open, maxTaskStates)
	if err != nil {
		return nil, err
	}
	tasks := make([]TaskState, 0, len(states))
	for _, t := range states {
		tasks = append(tasks, TaskState{
			ID: t.ID, Principal: t.Principal, Network: t.Network, Tool: toolOf(t.Call), Status: t.Status, Message: t.Message, Waits: t.Waits,
			Created: t.Created, Updated: t.Updated, Attempts: t.Attempts, Cancelled: t.Cancelled,
		})
	}
	return tasks, nil
}

// toolOf returns the name of the tool of a stored call, or "".
func toolOf(call json.RawMessage) string {
	name, err := jsonscan.FindPointer(call, "params", "name")
	if err != nil || jsonscan.KindOf(name) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(name)
}

// CancelTask cancels a task of any client, as its client can: one that waits ends, and one that runs decides itself. The error is
// [ErrUnknownTask] or an error of the store.
func (s *Server) CancelTask(ctx context.Context, id string) error {
	return s.operateTask(func(engine *task.Engine) error { return engine.CancelAny(ctx, id) })
}

// RetryTask gives a task that waits for a worker to the workers again, if its job was lost, or is delayed because workers have handed
// it back. A function that has begun does not begin again because of it. The error is [ErrUnknownTask], [ErrTaskNotWaiting] or an error
// of the store.
func (s *Server) RetryTask(ctx context.Context, id string) error {
	return s.operateTask(func(engine *task.Engine) error { return engine.Retry(ctx, id) })
}

func (s *Server) operateTask(operation func(engine *task.Engine) error) error {
	engine := s.startedTasks()
	if engine == nil {
		return ErrUnknownTask
	}
	switch err := operation(engine); {
	case errors.Is(err, task.ErrUnknown):
		return ErrUnknownTask
	case errors.Is(err, task.ErrNotWaiting):
		return ErrTaskNotWaiting
	default:
		return err
	}
}

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tasks that an entry keeps itself, at another server. The client gets an id that contains the id of the
// entry, sealed, so that nothing is stored for such a task.

// maxEntryTaskID is the maximum length in bytes of the id that an entry gives to a task. The id for the
// client is longer by about a third, and fits into an HTTP header.
const maxEntryTaskID = 4 << 10

// An entryTask is what the id of a task contains that an entry keeps.
type entryTask struct {
	Entry  string `json:"entry"`  // its name
	Origin []byte `json:"origin"` // digest of its origin
	ID     string `json:"id"`     // the id that the entry has given to the task
}

// taskOrigin returns the digest of an origin. A task id is not sent to another server that has taken the
// name of an entry.
func taskOrigin(o *mcp.Origin) []byte {
	digest := sha256.Sum256(token.Binding("origin of a task", o.Server, o.Name, o.Launch))
	return digest[:16]
}

func entryTaskBinding(caller *mcp.Caller) []byte {
	return token.Binding("task of an entry", caller.Principal)
}

// sealTask returns the task of an entry with the id for the caller of the call.
func (s *Server) sealTask(ctx context.Context, call *mcp.Call, entry *Entry, t *mcp.Task) (mcp.Result, error) {
	switch {
	case call.Method() != mcp.MethodToolsCall || entry.Tasks == nil:
		return nil, errors.New("an entry without Tasks returned a task")
	case call.TaskID() != "":
		return nil, errors.New("the entry returned a task although the call runs as one")
	case !call.Caller.Capabilities.HasExtension(mcp.ExtensionTasks):
		return nil, errors.New("the entry returned a task to a caller that does not support tasks")
	case t.TaskID == "" || len(t.TaskID) > maxEntryTaskID:
		return nil, errors.New("the entry returned a task with an id that is empty or too long")
	}
	content, err := json.Marshal(entryTask{entry.Name, taskOrigin(&entry.Origin), t.TaskID})
	if err != nil {
		return nil, err
	}
	kept := task.MaxTTL
	if t.TTLMs != nil && *t.TTLMs < task.MaxTTL.Milliseconds() {
		kept = max(0, time.Duration(*t.TTLMs)*time.Millisecond) + clockDifference
	}
	shared := *t
	shared.TaskID, err = s.dataKey.Seal(ctx, content, entryTaskBinding(call.Caller), time.Now().Add(kept))
	return &shared, err
}

// clockDifference is by how much the clocks of two servers may differ.
const clockDifference = time.Minute

// openTask returns the entry that keeps a task, and the id that the entry has given to the task. The entry is
// nil if no entry keeps it, or if the caller must not see the entry now. sealed reports whether the id
// was made by sealTask.
func (s *Server) openTask(ctx context.Context, caller *mcp.Caller, id string) (entry *Entry, inner string, sealed bool, err error) {
	content, err := s.dataKey.Open(ctx, id, entryTaskBinding(caller), time.Now())
	switch {
	case errors.Is(err, token.ErrForged), errors.Is(err, token.ErrExpired):
		return nil, "", errors.Is(err, token.ErrExpired), nil
	case err != nil:
		return nil, "", false, err
	}
	var kept entryTask
	if err := json.Unmarshal(content, &kept); err != nil {
		return nil, "", true, err
	}
	if entry, err = s.find(ctx, caller, mcp.KindTool, kept.Entry); err != nil {
		return nil, "", true, err
	}
	if entry == nil || entry.Tasks == nil || !bytes.Equal(taskOrigin(&entry.Origin), kept.Origin) ||
		entry.Visible != nil && !entry.Visible(ctx, caller) {
		return nil, "", true, nil
	}
	return entry, kept.ID, true, nil
}

// serveEntryTask passes a request about a task to the entry that keeps the task. In the result, the id of
// the entry is replaced by the id for the caller; all other bytes stay unchanged.
func (s *Server) serveEntryTask(ctx context.Context, call *mcp.Call, entry *Entry, inner string) (mcp.Result, error) {
	params, err := jsonscan.Splice(nil, call.Params(), jsonscan.Edit{Name: "taskId", Value: jsonscan.AppendString(nil, inner)})
	if err != nil {
		return nil, err
	}
	entered, err := call.Enter(&entry.Target, params, s.recheckFunc)
	if err != nil {
		return nil, err
	}
	result, err := entry.Tasks(ctx, entered)
	if err != nil {
		return nil, err
	}
	raw, ok := result.(mcp.Raw)
	if !ok {
		if raw, err = result.AppendJSON(nil); err != nil {
			return nil, err
		}
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil || members.Get("taskId") == nil {
		return raw, err
	}
	replaced, err := jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "taskId", Value: call.Member("taskId")})
	return mcp.Raw(replaced), err
}

const (
	// maxTaskPolls bounds the tasks of entries that subscribers watch at the same time, and
	// maxTaskPollsPerPrincipal the tasks of one authenticated caller. Subscriptions leave out further tasks, so
	// that their clients ask for the state themselves.
	maxTaskPolls, maxTaskPollsPerPrincipal = 10_000, 100
)

// watchTask calls changed when the state of a task has changed, until stop is called. It asks the entry that keeps the
// task regularly, as the client would, and then calls changed with the first state too. The error is [task.ErrUnknown]
// for a task that does not exist, or that cannot be watched.
func (s *Server) watchTask(ctx context.Context, caller *mcp.Caller, id string, changed func()) (stop func(), err error) {
	entry, _, sealed, err := s.openTask(ctx, caller, id)
	switch {
	case err != nil:
		return nil, err
	case entry == nil && !sealed:
		engine, err := s.taskEngine()
		if err != nil {
			return nil, err
		}
		return engine.Watch(ctx, id, caller.Principal, changed)
	case entry == nil || s.tasks.polls.Acquire(holderOf(caller)) != nil:
		return nil, task.ErrUnknown
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var polling sync.WaitGroup
	polling.Go(func() { s.pollEntryTask(ctx, caller, id, changed) })
	return func() {
		cancel()
		polling.Wait()
		s.tasks.polls.Release(holderOf(caller))
	}, nil
}

// pollEntryTask asks for the state of a task until ctx or the task ends, also after errors. The client answers the
// questions.
func (s *Server) pollEntryTask(ctx context.Context, caller *mcp.Caller, id string, changed func()) {
	var last *mcp.Task
	wait := era.TaskWait{
		ID: id,
		Request: func(ctx context.Context, _ string, _ mcp.Raw) (json.RawMessage, error) {
			state, err := core{s}.Task(ctx, caller, id)
			if err != nil {
				return nil, err
			}
			return state.AppendJSON(nil)
		},
		MayRetry: func(error, int) bool { return true },
		State: func(state *mcp.Task) {
			if !reflect.DeepEqual(last, state) {
				changed()
			}
			last = state
		},
	}
	_, _ = wait.Wait(ctx, nil) // the client asks for the outcome
}

// entryTaskState returns the state of a task that an entry keeps, with the id for the caller.
func (s *Server) entryTaskState(ctx context.Context, caller *mcp.Caller, id string, entry *Entry, inner string) (*mcp.Task, error) {
	params, err := (&mcp.TaskParams{TaskID: id}).AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodTasksGet, params)
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(req, caller, nil)
	var result mcp.Result
	err = callRecovered(func() (err error) {
		result, err = s.serveEntryTask(ctx, &call, entry, inner)
		return err
	})
	if err != nil {
		return nil, err
	}
	raw, err := result.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	state := new(mcp.Task)
	err = state.UnmarshalJSON(raw)
	state.ResultType = "" // which tasks/get has set
	return state, err
}

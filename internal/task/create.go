package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A Spec describes a task to create.
type Spec struct {
	Principal       string
	mcp.TaskRequest // its TTL is from 1 ns to MaxTTL
	// Call and State are JSON for [Config.Run].
	Call, State json.RawMessage
	// Executed says that the call has a result already, in its State. Such a task is not counted among the tasks of its
	// principal, so that the result is not lost.
	Executed bool
}

// Create stores a task and adds its first job. When it returns, the task can be found at every replica. A
// task is like any other if its client does not get the id, since the client has left: it ends at its time
// to live at the latest, and counts among the tasks of its principal until then.
// The error is a [*SizeError], a [*jsonrpc.Error] with [jsonrpc.Busy] if the principal has too many
// tasks, [ErrNotCreated], or [ErrMayBeCreated].
func (e *Engine) Create(ctx context.Context, spec Spec) (*mcp.Task, error) {
	e.Start()
	if spec.TTL <= 0 || spec.TTL > MaxTTL {
		return nil, fmt.Errorf("the time to live of the task is %v, expected at most %v", spec.TTL, MaxTTL)
	}
	now := time.Now()
	rec := &record{
		Principal: spec.Principal, Status: mcp.TaskWorking, Created: now, Updated: now,
		TTL: spec.TTL, Round: 1,
	}
	id := rand.Text()
	if !spec.Executed {
		if err := e.admit(spec.Principal, id, rec.until()); err != nil {
			return nil, err
		}
	}
	if err := e.store(ctx, id, rec, &spec); err != nil {
		e.ended(spec.Principal, id)
		return nil, err
	}
	return e.describe(id, rec), nil
}

func (e *Engine) store(ctx context.Context, id string, rec *record, spec *Spec) (err error) {
	rec.Call, err = e.write(ctx, id, "call", spec.Call, rec.until())
	if err == nil {
		rec.State, err = e.write(ctx, id, "state", spec.State, rec.until())
	}
	var stored *state.Record[record]
	if err == nil {
		stored, err = e.records.Create(ctx, keyOf(id), *rec, rec.until())
	}
	if err == nil {
		if err = e.push(ctx, id, rec.Round); err == nil {
			return nil
		}
		// The job may be in the queue. Without its record, it does nothing. A worker that has begun has changed it, so
		// that the job was in the queue.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
		defer cancel()
		switch failed := e.Delete(ctx, keyOf(id), stored); {
		case errors.Is(failed, store.ErrConflict):
			return nil
		case failed != nil:
			return fmt.Errorf("%w: %w", ErrMayBeCreated, errors.Join(err, failed))
		}
	}
	if _, tooLarge := errors.AsType[*SizeError](err); tooLarge {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotCreated, err)
}

// A job is the data of a job of the queue.
type job struct {
	ID    string `json:"id"`
	Round int    `json:"round"`
}

func (e *Engine) push(ctx context.Context, id string, round int) error {
	data, err := json.Marshal(job{id, round})
	if err != nil {
		return err
	}
	if err := e.config.Store.Push(ctx, queueName, fmt.Sprintf("%s-%d", id, round), data); err != nil {
		return fmt.Errorf("adding a job for a task: %w", err)
	}
	return nil
}

// admit counts a task that has not ended.
func (e *Engine) admit(principal, id string, until time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	tasks := e.open[principal]
	if tasks == nil {
		tasks = make(map[string]time.Time)
		e.open[principal] = tasks
	}
	limit := e.share()
	if len(tasks) >= limit {
		now := time.Now()
		maps.DeleteFunc(tasks, func(_ string, until time.Time) bool { return !now.Before(until) })
	}
	if len(tasks) >= limit {
		return &jsonrpc.Error{Code: jsonrpc.Busy, Message: fmt.Sprintf("the caller has %d tasks that have not ended; cancel some, or try again later", len(tasks))}
	}
	tasks[id] = until
	return nil
}

// share is how many of the workers the tasks of one principal may use.
func (e *Engine) share() int { return max(1, e.config.Max/2) }

// ended stops to count a task.
func (e *Engine) ended(principal, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open[principal], id)
	if len(e.open[principal]) == 0 {
		delete(e.open, principal)
	}
}

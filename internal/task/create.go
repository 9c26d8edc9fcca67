package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A Spec describes a task to create.
type Spec struct {
	Principal       string
	Network         string // of a caller without Principal
	mcp.TaskRequest        // its TTL is from 1 ns to MaxTTL
	// Call and State are JSON for [Config.Run].
	Call, State json.RawMessage
	// Executed says that the call has a result already, in its State. Such a task is not counted among the tasks that have
	// not ended, so that the result is not lost.
	Executed bool
}

// Create stores a task and adds its first job. When it returns, the task can be found at every replica. A
// task is like any other if its client does not get the id, since the client has left: it ends at its time
// to live at the latest, and counts among the tasks of its client until then.
// The error is a [*SizeError], a [*jsonrpc.Error] with [jsonrpc.Busy] if the client has too many
// tasks or there is no room for another one, [ErrNotCreated], or [ErrMayBeCreated].
func (e *Engine) Create(ctx context.Context, spec Spec) (*mcp.Task, error) {
	e.Start()
	if spec.TTL <= 0 || spec.TTL > MaxTTL {
		return nil, fmt.Errorf("the time to live of the task is %v, expected at most %v", spec.TTL, MaxTTL)
	}
	now := time.Now()
	rec := &record{
		Principal: spec.Principal, Network: spec.Network, Status: mcp.TaskWorking, Created: now, Updated: now,
		TTL: spec.TTL, Round: 1,
	}
	id := rand.Text()
	if err := e.kept.create(id, rec, len(spec.Call), len(spec.State), !spec.Executed); err != nil {
		return nil, err
	}
	if err := e.store(ctx, id, rec, &spec); err != nil {
		e.forgetKept(ctx, id)
		return nil, err
	}
	return e.describe(id, rec), nil
}

func (e *Engine) store(ctx context.Context, id string, rec *record, spec *Spec) (err error) {
	if err = e.storeKept(ctx, id); err == nil {
		rec.Call, err = e.records.write(ctx, id, "call", spec.Call, rec.until())
	}
	if err == nil {
		rec.State, err = e.records.write(ctx, id, "state", spec.State, rec.until())
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
	e.dropExcept(ctx, id, rec.parts(), nil)
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
	return e.pushAs(ctx, fmt.Sprintf("%s-%d", id, round), id, round)
}

// pushAs adds a job with an id of its own.
func (e *Engine) pushAs(ctx context.Context, name, id string, round int) error {
	data, err := json.Marshal(job{id, round})
	if err != nil {
		return err
	}
	if err := e.config.Store.Push(ctx, queueName, name, data); err != nil {
		return fmt.Errorf("adding a job for a task: %w", err)
	}
	return nil
}

// share is how many of the workers the tasks of one client may use.
func (e *Engine) share() int { return max(1, e.config.Max/2) }

package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// A State is the state of a task for an operator, who sees the tasks of all clients.
type State struct {
	ID                 string
	Principal, Network string
	Status             mcp.TaskStatus
	Message            string
	Waits              bool // for a worker
	Created, Updated   time.Time
	Attempts           int
	Cancelled          bool // its client, or an operator, has asked for that
	// Call is the Call of the [Spec]. It is nil if it is long or the task has ended.
	Call json.RawMessage
}

// States returns the states of the tasks of all replicas, oldest first, of which there are at most limit. With open, it leaves out
// those that have ended. An engine that has just been started may not know the tasks of other replicas yet. The error is an error of the
// store.
func (e *Engine) States(ctx context.Context, open bool, limit int) ([]State, error) {
	var states []State
	for _, id := range e.kept.known(open, limit) {
		rec, err := e.load(ctx, id)
		switch {
		case errors.Is(err, ErrUnknown): // it has expired, or another key has sealed it
		case err != nil:
			return nil, err
		case !open || !rec.Status.Ended():
			states = append(states, State{
				ID: id, Principal: rec.Principal, Network: rec.Network, Status: rec.Status, Message: rec.Message, Waits: rec.isQueued(),
				Created: rec.Created, Updated: rec.Updated, Attempts: rec.Attempt, Cancelled: rec.Cancelled, Call: rec.Call.Inline,
			})
		}
	}
	slices.SortFunc(states, func(a, b State) int { return a.Created.Compare(b.Created) })
	return states, nil
}

// known returns the ids of counted tasks: of those that expire first, at most limit.
func (k *kept) known(open bool, limit int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []string
	for id, t := range k.tasks {
		if !open || isOpen(t.parts) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return k.tasks[a].until.Compare(k.tasks[b].until) })
	return slices.Clone(ids[:min(limit, len(ids))])
}

// CancelAny is [Engine.Cancel] for an operator.
func (e *Engine) CancelAny(ctx context.Context, id string) error {
	if _, err := e.load(ctx, id); err != nil {
		return err
	}
	return e.cancel(ctx, id, "the task was cancelled by an operator")
}

// ErrNotWaiting means that a task runs, asks, or has ended.
var ErrNotWaiting = errors.New("task: it does not wait for a worker")

// Retry adds the job of a task that waits for a worker again, for an operator: the job may be lost, or delayed since workers have
// handed it back. A task that has begun does not begin again because of it. The error is [ErrUnknown], [ErrNotWaiting], or an error of
// the store.
func (e *Engine) Retry(ctx context.Context, id string) error {
	rec, err := e.load(ctx, id)
	if err != nil {
		return err
	}
	if !rec.isQueued() {
		return ErrNotWaiting
	}
	return e.pushAs(ctx, fmt.Sprintf("%s-%d-%s", id, rec.Round, rand.Text()), id, rec.Round)
}

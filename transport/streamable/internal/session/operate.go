package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A State is a session that is open in this replica, for operators.
type State struct {
	ID, Principal, Network string
	Version                mcp.Version
	Requests               int       // in progress
	Until                  time.Time // when it ends here without another request
}

// States returns the sessions that are open in this replica: those that end first, first.
func (t *Sessions) States() []State {
	t.mu.Lock()
	states := make([]State, 0, len(t.open))
	for _, s := range t.open {
		states = append(states, State{s.id, s.principal, s.network, s.version, s.users, s.until})
	}
	t.mu.Unlock()
	slices.SortFunc(states, func(a, b State) int { return a.Until.Compare(b.Until) })
	return states
}

// End ends a session of any client in all replicas, for an operator. It returns false if there is none.
func (t *Sessions) End(ctx context.Context, id string) (found bool, err error) {
	if s := t.local(id); s != nil {
		return true, t.end(ctx, s)
	}
	if !t.shared || store.CheckName(id) != nil {
		return false, nil
	}
	_, err = t.records.Load(ctx, recordKey(id))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = t.records.Delete(ctx, recordKey(id), nil)
	}
	if err == nil {
		err = t.replicas.publish(ctx, notice{Session: id}, nil)
	}
	return err == nil, err
}

package streamable

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Stats are how much of its limits an endpoint uses at a moment, for its operator; see [transport.Limits].
type Stats struct {
	Sessions      transport.Usage
	Calls         transport.Usage
	Subscriptions transport.Usage
	HeldBytes     transport.Usage
}

// Stats returns how much of its limits the endpoint uses now.
func (e *Endpoint) Stats() Stats {
	used, most := e.quota.Bytes.Usage()
	return Stats{
		Sessions: e.quota.Sessions.Usage(), Calls: e.quota.Calls.Usage(), Subscriptions: e.quota.Subscriptions.Usage(),
		HeldBytes: transport.Usage{Used: used, Max: most},
	}
}

// A SessionState is a session that is open in this process, for operators. Clients of 2026-07-28 have no sessions.
type SessionState struct {
	ID        string      `json:"id"`
	Principal string      `json:"principal,omitempty"`
	Network   string      `json:"network,omitempty"`
	Version   mcp.Version `json:"version"`
	Requests  int         `json:"requests"` // in progress
	Until     time.Time   `json:"until"`    // when it ends in this process without another request
}

// Sessions returns the sessions that are open in this process: those that end first, first.
func (e *Endpoint) Sessions() []SessionState {
	open := e.sessions.States()
	states := make([]SessionState, len(open))
	for i, s := range open {
		states[i] = SessionState(s)
	}
	return states
}

// EndSession ends a session of any client, as the client can with DELETE: with a store, at all replicas. Its calls are cancelled. It
// returns false if there is no such session. The error is an error of the store.
func (e *Endpoint) EndSession(ctx context.Context, id string) (found bool, err error) {
	return e.sessions.End(ctx, id)
}

package bridge

import (
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// A State is how a server does.
type State struct {
	// Alias is the server's, "" of a proxy.
	Alias string
	// Status is that of the session by which its lists are read.
	Status Status
	// Since is when that began.
	Since time.Time
	// Err is why it is failed, or why its lists could not be read; nil otherwise. It is
	// for the operator: it may say how the server is started.
	Err error
	// Restarts counts how often it had to be started again.
	Restarts int
	// Calls run, Queued ones wait to.
	Calls, Queued int
	// Sessions counts those beside that by which lists are read.
	Sessions int
	// Tools, Prompts and Resources count what is offered, templates as resources.
	Tools, Prompts, Resources int
	// NotOffered says what is not offered and why: *[server.CollisionError] where another
	// entry has the name or URI, *[MissingError] where the server lacks what its options
	// name, and other errors for entries that cannot be offered as they are.
	NotOffered []error
}

// State says how the server does.
func (u *Upstream) State() State {
	offered := u.Catalog()
	state := State{
		Alias: u.alias, Calls: int(u.limit.calls.Load()), Queued: int(max(u.limit.queued.Load(), 0)),
		Tools: offered.Len(mcp.KindTool), Prompts: offered.Len(mcp.KindPrompt),
		Resources: offered.Len(mcp.KindResource) + offered.Len(mcp.KindResourceTemplate), NotOffered: slices.Clone(notOffered(offered)),
	}
	u.pool.mu.Lock()
	state.Sessions = len(u.pool.slots)
	u.pool.mu.Unlock()
	main := u.pool.main
	main.mu.Lock()
	state.Status, state.Since, state.Err, state.Restarts = main.status, main.since, main.err, main.restarts
	main.mu.Unlock()
	if state.Err == nil {
		state.Err = u.unreadable()
	}
	return state
}

// States says how the servers do, in their order.
func (b *Bridge) States() []State {
	members := *b.members.Load()
	collisions := merged{b}.Catalog().Collisions()
	states := make([]State, len(members))
	for i, m := range members {
		states[i] = m.State()
		for _, collision := range collisions {
			if collision.Owner == ownerOf(m.alias) {
				states[i].NotOffered = append(states[i].NotOffered, collision)
			}
		}
	}
	return states
}

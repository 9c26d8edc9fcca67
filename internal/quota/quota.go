package quota

import (
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Quota counts what is in use. Its methods may be called concurrently.
type Quota struct {
	name            string
	max             int
	maxPerPrincipal int

	mu       sync.Mutex
	used     int
	byHolder map[Holder]int
}

// New returns an unused quota. name is what it counts, in the plural, for errors. maxPerPrincipal is the limit of an
// authenticated client. A client that is not authenticated has the same limit while at least half of the quota is used.
// Below, it has none: behind a proxy, all clients may look like one.
func New(name string, most, maxPerPrincipal int) *Quota {
	return &Quota{name: name, max: most, maxPerPrincipal: maxPerPrincipal, byHolder: make(map[Holder]int)}
}

// Acquire adds one for a client. If a limit is reached it returns a *[LimitError].
func (q *Quota) Acquire(h Holder) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.used >= q.max:
		return &LimitError{Name: q.name, Max: q.max}
	case h.hasShare() && q.byHolder[h] >= q.maxPerPrincipal && (h.authenticated || q.used >= q.max/2):
		return &LimitError{Name: q.name + " of one client", Max: q.maxPerPrincipal}
	}
	q.used++
	if h.hasShare() {
		q.byHolder[h]++
	}
	return nil
}

// Release gives back what Acquire added for the client.
func (q *Quota) Release(h Holder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used--
	if !h.hasShare() {
		return
	}
	if q.byHolder[h]--; q.byHolder[h] <= 0 {
		delete(q.byHolder, h)
	}
}

// Usage returns how many are in use, of how many.
func (q *Quota) Usage() transport.Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return transport.Usage{Used: int64(q.used), Max: int64(q.max)}
}

// A LimitError says that a limit is reached. Its text is meant for the client.
type LimitError struct {
	Name string // what the quota counts
	Max  int
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("busy: at most %d %s may be open at a time", e.Max, e.Name)
}

// An Endpoint counts what the clients of one endpoint use. Its methods may be called
// concurrently.
type Endpoint struct {
	Sessions *Quota
	// Bytes limits the memory of large messages.
	Bytes *bufpool.Budget
	// Calls and Subscriptions are counted by Begin and End.
	Calls         *Quota
	Subscriptions *Quota
}

// NewEndpoint returns an unused endpoint. The limits must have their defaults.
func NewEndpoint(limits *transport.Limits) *Endpoint {
	return &Endpoint{
		Sessions: New("sessions", limits.Sessions, limits.SessionsPerPrincipal),
		Bytes:    bufpool.NewBudget(limits.HeldBytes),
		Calls:    New("calls", limits.Calls, limits.CallsPerPrincipal),

		Subscriptions: New("subscriptions", limits.Subscriptions, limits.CallsPerPrincipal),
	}
}

// Begin adds a call of a client. If a limit is reached it returns an error whose text is meant
// for the client. Subscriptions last and do not run, so they have a limit of their own.
func (e *Endpoint) Begin(h Holder, method string) error { return e.of(method).Acquire(h) }

// End removes a call that Begin has added.
func (e *Endpoint) End(h Holder, method string) { e.of(method).Release(h) }

func (e *Endpoint) of(method string) *Quota {
	if IsSubscription(method) {
		return e.Subscriptions
	}
	return e.Calls
}

// IsSubscription reports whether a call of a method lasts until the client or the server ends it, and has notifications
// before its result.
func IsSubscription(method string) bool {
	return method == mcp.MethodSubscriptionsListen || method == mcp.MethodEventsStream
}

// Client returns the limiter for the connection of a client. It implements
// jsonrpc.Limiter.
func (e *Endpoint) Client(h Holder) *Client { return &Client{e, h} }

// A Client adds the calls of one connection to an [Endpoint].
type Client struct {
	endpoint *Endpoint
	holder   Holder
}

// Begin adds a call.
func (c *Client) Begin(method string) error { return c.endpoint.Begin(c.holder, method) }

// End removes a call.
func (c *Client) End(method string) { c.endpoint.End(c.holder, method) }

package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// An Upstream offers the entries of one other server as a [server.Provider]. Make one with
// [Proxy]. Its methods may be called concurrently.
type Upstream struct {
	alias       string // "" for a proxy
	owner       string // [ownerOf] the alias
	bridge      string // random id of the bridge, or of the proxy
	opts        ProxyOptions
	offeredName func(string) string // returns the offered name of a tool or prompt
	// eventName returns the offered name of an event.
	eventName func(string) string
	prefix    string // of the offered names
	pool      *pool
	limit     *callLimit
	subs      *subscriptions
	onConnect func(ctx context.Context) // called when a connection has listed the tools

	stale      chan struct{} // receives one value when the lists may have changed
	loaded     chan struct{} // closed when the lists have been read for the first time
	loadFailed chan struct{} // closed when reading them has failed for the first time

	catalog atomic.Pointer[server.Catalog]
	// listsDirectories is set if the server declares that it answers resources/directory/read.
	listsDirectories atomic.Bool
	offering         sync.Mutex // held while entries are offered that were read elsewhere
	// The following fields are used by refresh, and with ProxyOptions.NoLists by offerCached, only.
	lists        *lists                  // of catalog
	offeredLists [len(listMethods)]*list // that are offered; nil before the first reading
	warnings     []error                 // of the last reading
	failures     int                     // readings with an error, in a row

	mu        sync.Mutex
	listError error // of the last attempt to read the lists
	onChange  func(mcp.Change)
}

var _ server.Provider = (*Upstream)(nil)

// Proxy returns a provider of the tools, prompts, resources, templates, completions and
// subscriptions of a server, unchanged except as opts say. opts may be nil. The server that
// the proxy is mounted on starts and stops it; before its lists have been read nothing is
// offered.
//
// A server that ends is restarted, with increasing pauses. If it does not answer a call, the
// error is an *[UpstreamError] that says whether the call may have been executed. A call that was
// not sent, because the session had ended, is sent in the next session. A call that may have been
// executed is not repeated, unless the server has lost the session ([transport.ErrSessionLost]) and
// the tool is read-only or idempotent, and the server [ProxyOptions].Trusted.
func Proxy(dialer transport.Dialer, opts *ProxyOptions) *Upstream {
	if opts == nil {
		opts = &ProxyOptions{}
	}
	return newUpstream("", rand.Text(), "", dialer, *opts, client.NewSuspendedCalls(), func(name string) string { return name })
}

func newUpstream(alias, bridge, prefix string, dialer transport.Dialer, opts ProxyOptions, suspended *client.SuspendedCalls, name func(string) string) *Upstream {
	u := &Upstream{
		alias: alias, owner: ownerOf(alias), bridge: bridge, prefix: prefix, opts: opts.withDefaults(), offeredName: name, eventName: name,
		onConnect: func(context.Context) {}, stale: make(chan struct{}, 1), loaded: make(chan struct{}), loadFailed: make(chan struct{}),
	}
	if alias != "" {
		u.opts.Logger = u.opts.Logger.With("server", alias)
	}
	u.pool = newPool(dialer, &u.opts, suspended)
	u.pool.main.open = func(ctx context.Context) (*client.Session, error) {
		u.pool.disown()
		return u.pool.connect(ctx, u.pool.main, "", client.Options{OnChange: u.handleChange})
	}
	u.pool.main.monitor = u.monitor
	u.subs = newSubscriptions(u.pool.main)
	u.limit = newCallLimit(&u.opts)
	empty := server.NewCatalog(nil, &server.CatalogOptions{Resolve: u.resolve, Partial: true, Bridges: []string{bridge}, RootsChanged: u.pool.rootsChanged})
	if cached := u.opts.CachedCatalog; cached != nil {
		u.useCached(cached, empty)
	} else {
		u.catalog.Store(empty)
	}
	if u.opts.NoLists {
		close(u.loaded)
	}
	return u
}

// Catalog returns the entries of the server that are known so far.
func (u *Upstream) Catalog() *server.Catalog { return u.catalog.Load() }

// waitConfigured is waitReady for a server that must have the tools that its options name.
func (u *Upstream) waitConfigured(ctx context.Context) error {
	if err := u.waitReady(ctx); err != nil {
		return err
	}
	return misconfigured(u.Catalog())
}

// waitReady waits until the lists have been read for the first time, or an attempt has
// failed.
func (u *Upstream) waitReady(ctx context.Context) error {
	for {
		status, changed, err := u.pool.main.state()
		switch {
		case isClosed(u.loaded):
			return nil
		case isClosed(u.loadFailed):
			err := u.lastListError()
			failure := Malformed
			if _, limited := errors.AsType[*mcp.LimitError](err); limited {
				failure = LimitExceeded
			} else if errors.Is(err, context.DeadlineExceeded) {
				failure = TimedOut
			}
			return u.notReady(failure, err)
		case status == statusFailed || status == statusStopped:
			return u.notReady(Unavailable, cmp.Or(err, errStopped))
		}
		select {
		case <-u.loaded:
		case <-u.loadFailed:
		case <-changed:
		case <-ctx.Done():
			return u.notReady(TimedOut, context.Cause(ctx))
		}
	}
}

func (u *Upstream) notReady(failure Failure, err error) error {
	return &UpstreamError{Server: u.alias, Failure: failure, Delivery: jsonrpc.NotSent, Err: err}
}

func (u *Upstream) lastListError() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listError
}

// Run starts the server and keeps it running until ctx ends. It calls ready when the lists
// have been read, or immediately for a lazy server with a cached catalog. Unless the server is
// optional, it is an error that the server cannot be started (*[UpstreamError]), lists two
// tools or prompts of one name (*[server.CollisionError]), or lacks one that its options name
// (*[MissingError]). Run must not run twice at the same time.
func (u *Upstream) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !u.pool.start(ctx) {
		return errors.New("bridge: the proxy is already running")
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { u.run(ctx, changed) })
	if !u.pool.main.lazy {
		if err := u.waitConfigured(ctx); err != nil && !u.opts.Optional {
			stop()
			return err
		}
	}
	ready()
	<-ctx.Done()
	return nil
}

// run runs the pool, which must have been started with ctx.
func (u *Upstream) run(ctx context.Context, changed func(mcp.Change)) {
	u.mu.Lock()
	u.onChange = changed
	u.mu.Unlock()
	u.pool.run(ctx)
}

// readAgain makes refreshLoop read the lists again, and starts the server if it is idle.
func (u *Upstream) readAgain() {
	signal(u.stale)
	u.pool.main.requestOpen()
}

func (u *Upstream) notify(change mcp.Change) {
	u.mu.Lock()
	changed := u.onChange
	u.mu.Unlock()
	if changed != nil {
		changed(change)
	}
}

// A State is a snapshot of a server's state.
type State struct {
	// Alias is the alias of the server, "" for a proxy.
	Alias string
	// Status is the status of the session for lists: "idle" (the server does not run and is started when it is
	// needed), "starting" (calls wait), "ready" (the server takes calls), "failed" (it could not be started or has
	// ended, and is started again) or "stopped" (it is not started again).
	Status string
	// Since is when the status began.
	Since time.Time
	// Err is why the server has failed, or why its lists could not be read. It is nil
	// otherwise. It is for the operator: it may contain the command line of the server.
	Err error
	// Version is the protocol version of the last session for lists, "" before the first. It is older than
	// [mcp.Version20260728] for a server of the legacy era.
	Version mcp.Version
	// NextTry is when a server that has failed is started again. It is zero for other statuses, and in the past while the
	// server is being started again.
	NextTry time.Time
	// Restarts is how often the server had to be started again, without [Bridge.Restart].
	Restarts int
	// Calls is the number of running calls, and Queued is the number of waiting calls.
	Calls, Queued int
	// Sessions is the number of sessions besides the first.
	Sessions int
	// Tools, Prompts and Resources are the numbers of offered entries. Templates count as
	// resources.
	Tools, Prompts, Resources int
	// NotOffered has an error for each entry that is not offered. It is a *[server.CollisionError] if another entry has
	// the name or URI, and a *[MissingError] if the server lacks an entry that its options name. It is a
	// *[mcp.LimitError] if the entry is too large, or another error if the entry is not valid. After 100 errors there
	// is one error with the number of the others.
	NotOffered []error
	// Repaired has an error for each entry that is offered in another form than the server's, because that is not
	// valid by the schema of MCP, and some clients would refuse the complete list. It is limited like NotOffered.
	Repaired []error
}

// State returns the state of the server.
func (u *Upstream) State() State {
	offered := u.Catalog()
	state := State{
		Alias: u.alias, Calls: int(u.limit.running.Load()), Queued: int(max(u.limit.queued.Load(), 0)),
		Tools: offered.Len(mcp.KindTool), Prompts: offered.Len(mcp.KindPrompt),
		Resources: offered.Len(mcp.KindResource) + offered.Len(mcp.KindResourceTemplate), NotOffered: slices.Clone(notOffered(offered)),
		Repaired: slices.Clone(repaired(offered)),
	}
	u.pool.mu.Lock()
	state.Sessions = len(u.pool.sessions)
	u.pool.mu.Unlock()
	main := u.pool.main
	main.mu.Lock()
	state.Status, state.Since, state.Err, state.Restarts = main.status, main.since, main.err, main.restarts
	state.Version, state.NextTry = main.version, main.nextTry
	main.mu.Unlock()
	if state.Err == nil {
		state.Err = u.lastListError()
	}
	return state
}

// A callLimit bounds how many calls run at a server, and how many wait.
type callLimit struct {
	slots     *semaphore.Weighted
	maxQueued int64
	queued    atomic.Int64
	running   atomic.Int64
}

func newCallLimit(opts *ProxyOptions) *callLimit {
	return &callLimit{slots: semaphore.NewWeighted(int64(opts.MaxCalls)), maxQueued: int64(max(opts.MaxQueued, 0))}
}

var errBusy = errors.New("too many calls wait for the server")

// acquire waits for a slot, which must be released.
func (l *callLimit) acquire(ctx context.Context) error {
	if !l.slots.TryAcquire(1) {
		defer l.queued.Add(-1)
		if l.queued.Add(1) > l.maxQueued {
			return errBusy
		}
		if err := l.slots.Acquire(ctx, 1); err != nil {
			return context.Cause(ctx)
		}
	}
	l.running.Add(1)
	return nil
}

func (l *callLimit) release() {
	l.running.Add(-1)
	l.slots.Release(1)
}

// signal sends a value unless the channel, which has a buffer of one, is full.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// drain discards a value that waits in the channel.
func drain(ch <-chan struct{}) {
	select {
	case <-ch:
	default:
	}
}

// closeOnce must not be called concurrently for one channel.
func closeOnce(ch chan struct{}) {
	if !isClosed(ch) {
		close(ch)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

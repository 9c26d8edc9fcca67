package bridge

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// An Upstream is one server behind this process, as a [server.Provider]. Make one with
// [Proxy]. Its methods may be called concurrently.
type Upstream struct {
	alias  string // "" of a proxy
	opts   ProxyOptions
	name   func(string) string // of tools and prompts here
	prefix string              // of names, by which a server is started that has not listed them yet
	pool   *pool
	limit  *limit
	watch  *watches
	stale  chan struct{} // has room for one notice of a change
	loaded chan struct{} // closed when the lists have been read for the first time
	unread chan struct{} // closed when reading them has failed for the first time

	catalog atomic.Pointer[server.Catalog]
	lists   *lists // that the catalog is of; the session for lists has it

	mu      sync.Mutex
	failure error // why the lists could not be read
	changed func(mcp.Change)
}

var _ server.Provider = (*Upstream)(nil)

// Proxy returns a server as a provider: its tools, prompts, resources, templates,
// completions and subscriptions, as they are but for what opts change. It is started by
// the server that it is mounted on, and stopped with it.
//
// Until the server has been reached nothing is offered. It is started again when it ends,
// with growing pauses; a call that it then does not answer fails with an *[UpstreamError]
// that says whether it may have been executed, and is never repeated.
func Proxy(dialer transport.Dialer, opts *ProxyOptions) *Upstream {
	if opts == nil {
		opts = &ProxyOptions{}
	}
	return newUpstream("", "", dialer, *opts, client.NewSuspendedCalls(), func(name string) string { return name })
}

func newUpstream(alias, prefix string, dialer transport.Dialer, opts ProxyOptions, suspended *client.SuspendedCalls, name func(string) string) *Upstream {
	u := &Upstream{
		alias: alias, prefix: prefix, opts: opts.withDefaults(), name: name,
		stale: make(chan struct{}, 1), loaded: make(chan struct{}), unread: make(chan struct{}),
	}
	if alias != "" {
		u.opts.Logger = u.opts.Logger.With("server", alias)
	}
	u.pool = newPool(dialer, &u.opts, suspended)
	u.pool.main.open = func(ctx context.Context) (*client.Session, error) {
		return u.pool.connect(ctx, "", client.Options{Capabilities: everything.capabilities(), Changed: u.heard})
	}
	u.pool.main.lasts = u.follow
	u.watch = newWatches(u.pool.main)
	u.limit = newLimit(&u.opts)
	empty := server.NewCatalog(nil, &server.CatalogOptions{Resolve: u.resolve, Partial: true})
	if cached := u.opts.CachedCatalog; cached != nil {
		u.catalog.Store(u.catalogOf(cachedLists(cached), empty))
	} else {
		u.catalog.Store(empty)
	}
	return u
}

// Catalog returns what the server offers, as far as is known now.
func (u *Upstream) Catalog() *server.Catalog { return u.catalog.Load() }

// waitConfigured is waitReady for a server that must have what its options name.
func (u *Upstream) waitConfigured(ctx context.Context) error {
	if err := u.waitReady(ctx); err != nil {
		return err
	}
	return misconfigured(u.Catalog())
}

// waitReady waits until the lists have been read for the first time, or an attempt to has
// failed.
func (u *Upstream) waitReady(ctx context.Context) error {
	for {
		status, changed, err := u.pool.main.now()
		switch {
		case isClosed(u.loaded):
			return nil
		case isClosed(u.unread):
			return u.notReady(Malformed, u.unreadable())
		case status == Failed || status == Stopped:
			return u.notReady(Unavailable, cmp.Or(err, errStopped))
		}
		select {
		case <-u.loaded:
		case <-u.unread:
		case <-changed:
		case <-ctx.Done():
			return u.notReady(TimedOut, context.Cause(ctx))
		}
	}
}

func (u *Upstream) notReady(failure Failure, err error) error {
	return &UpstreamError{Server: u.alias, Failure: failure, Delivery: jsonrpc.NotSent, Err: err}
}

// unreadable says why the lists could not be read; nil if they could.
func (u *Upstream) unreadable() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failure
}

// Run keeps the server running until ctx ends. It is ready when the lists have been read.
// Unless the server is optional, it is an error that it cannot be started, lists two tools
// or prompts of one name, a *[server.CollisionError], or lacks one that its options name, a
// *[MissingError]. Run must not run twice at a time.
func (u *Upstream) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !u.pool.begin(ctx) {
		return errors.New("bridge: the server runs already, for another")
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { u.run(ctx, changed) })
	if !u.pool.main.sleeps { // or else what it offers is known
		if err := u.waitConfigured(ctx); err != nil && !u.opts.Optional {
			stop()
			return err
		}
	}
	ready()
	<-ctx.Done()
	return nil
}

// run keeps a pool running that has begun.
func (u *Upstream) run(ctx context.Context, changed func(mcp.Change)) {
	u.mu.Lock()
	u.changed = changed
	u.mu.Unlock()
	u.pool.run(ctx)
}

func (u *Upstream) tell(change mcp.Change) {
	u.mu.Lock()
	changed := u.changed
	u.mu.Unlock()
	if changed != nil {
		changed(change)
	}
}

// signal sends a signal, unless one waits already in the channel, which has room for it.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// closeOnce is for a channel that one goroutine closes.
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

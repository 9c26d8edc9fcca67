package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
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
	pool   *pool
	limit  *limit
	offer  atomic.Pointer[offer]
	watch  *watches
	stale  chan struct{} // has room for one who has heard of a change
	loaded chan struct{} // closed when the lists have been read for the first time
	unread chan struct{} // closed when reading them has failed for the first time

	mu      sync.Mutex
	failure error // why the lists could not be read
	changed func(mcp.Change)
}

var (
	_ server.Provider   = (*Upstream)(nil)
	_ server.Subscriber = (*Upstream)(nil)
)

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
	return newUpstream("", dialer, *opts, func(name string) string { return name })
}

func newUpstream(alias string, dialer transport.Dialer, opts ProxyOptions, name func(string) string) *Upstream {
	u := &Upstream{
		alias: alias, opts: opts.withDefaults(), name: name,
		stale: make(chan struct{}, 1), loaded: make(chan struct{}), unread: make(chan struct{}),
	}
	if alias != "" {
		u.opts.Logger = u.opts.Logger.With("server", alias)
	}
	u.pool = newPool(dialer, &u.opts)
	u.pool.main.open = func(ctx context.Context) (*client.Session, error) {
		return u.pool.connect(ctx, "", client.Options{Capabilities: everything.capabilities(), Changed: u.heard})
	}
	u.pool.main.lasts = u.follow
	u.watch = newWatches(u.pool.main)
	u.limit = newLimit(&u.opts)
	known := u.opts.Known
	if known == nil {
		known = &server.Catalogue{Partial: true}
	}
	u.offer.Store(newOffer(known, &u.opts, name, u.refuse))
	return u
}

// Catalogue is what the server offers, as far as is known now.
func (u *Upstream) Catalogue() *server.Catalogue { return &u.offer.Load().catalogue }

// Call passes a call on to the server.
func (u *Upstream) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if u.pool.main.sleeps {
		if err := u.wake(ctx, call); err != nil {
			return nil, err
		}
	}
	name, err := u.resolve(call)
	if err != nil {
		return nil, err
	}
	return u.forward(ctx, call, name)
}

// wake starts a server of which only is known what was said before. What has been decided
// about a call was decided about that: a tool that turns out to be another is not called.
func (u *Upstream) wake(ctx context.Context, call *mcp.Call) error {
	if isClosed(u.loaded) {
		return nil
	}
	if err := u.pool.await(ctx); err != nil {
		return notRun(ctx, u.alias, err)
	}
	known := u.offer.Load().listed(call)
	u.pool.main.want()
	if err := u.learn(ctx); err != nil {
		return err
	}
	if known != nil && !bytes.Equal(known, u.offer.Load().listed(call)) {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the tool is not what was known of it: list the tools again"}
	}
	return nil
}

// resolve returns the server's name of what is called, "" if it is the caller's.
func (u *Upstream) resolve(call *mcp.Call) (name string, err error) {
	offer := u.offer.Load()
	switch call.Method() {
	case mcp.MethodToolsCall:
		return found(mcp.KindTool, offer.tools, call.Member("name"))
	case mcp.MethodPromptsGet:
		return found(mcp.KindPrompt, offer.prompts, call.Member("name"))
	case mcp.MethodResourcesRead:
		return "", located(offer.has, call.Member("uri"))
	case mcp.MethodComplete:
		switch about := call.Member("ref", "type"); {
		case isText(about, "ref/prompt"):
			return found(mcp.KindPrompt, offer.prompts, call.Member("ref", "name"))
		case isText(about, "ref/resource"):
			return "", located(offer.completes, call.Member("ref", "uri"))
		}
		return "", errNoRef
	}
	return "", methodNotFound(call.Method())
}

func found(kind mcp.Kind, names map[string]string, raw []byte) (string, error) {
	if name, ok := lookUp(names, raw); ok {
		if jsonscan.KeyIs(raw, name) {
			return "", nil
		}
		return name, nil
	}
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "name must be a string"}
	}
	return "", unknown(kind, jsonscan.Unquote(raw))
}

func located(offered func(uri string) bool, raw []byte) error {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "uri must be a string"}
	}
	if uri := jsonscan.Unquote(raw); !offered(uri) {
		return noResource(uri)
	}
	return nil
}

// forward passes a call on, in its turn, by the session that is for its caller.
func (u *Upstream) forward(ctx context.Context, call *mcp.Call, name string) (mcp.Result, error) {
	if err := u.limit.enter(ctx); err != nil {
		return nil, notRun(ctx, u.alias, err)
	}
	defer u.limit.leave()
	session, slot, err := u.pool.acquire(ctx, call.Caller)
	if err != nil {
		return nil, notRun(ctx, u.alias, err)
	}
	asked := false
	defer func() { slot.release(asked) }()
	result, err := session.Forward(ctx, call, &client.ForwardOptions{Name: name, Asker: u.alias, Timeout: u.opts.CallTimeout})
	if err != nil {
		_, asked = mcp.AsInputRequired(err)
		return nil, failed(ctx, u.alias, err)
	}
	return result, nil
}

// Started returns when the server's lists have been read, or it could not be started; a
// lazy one whose offer is known is not waited for.
func (u *Upstream) Started(ctx context.Context) error {
	if u.pool.main.sleeps {
		return nil
	}
	err := u.learn(ctx)
	if err == nil || u.opts.Optional {
		return nil
	}
	return err
}

// learn waits until the lists have been read for the first time, or an attempt to has
// failed.
func (u *Upstream) learn(ctx context.Context) error {
	for {
		status, changed, err := u.pool.main.now()
		switch {
		case isClosed(u.loaded):
			return nil
		case isClosed(u.unread):
			return u.notLearned(Malformed, u.unreadable())
		case status == Failed || status == Stopped:
			return u.notLearned(Unavailable, cmp.Or(err, errStopped))
		}
		select {
		case <-u.loaded:
		case <-u.unread:
		case <-changed:
		case <-ctx.Done():
			return u.notLearned(TimedOut, context.Cause(ctx))
		}
	}
}

func (u *Upstream) notLearned(failure Failure, err error) error {
	return &UpstreamError{Server: u.alias, Failure: failure, Delivery: jsonrpc.NotSent, Err: err}
}

// unreadable says why the lists could not be read; nil if they could.
func (u *Upstream) unreadable() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failure
}

// Run keeps the server running until ctx ends. It must not run twice at a time.
func (u *Upstream) Run(ctx context.Context, changed func(mcp.Change)) error {
	if !u.pool.begin(ctx) {
		return errors.New("bridge: the server runs already, for another")
	}
	u.run(ctx, changed)
	return nil
}

// run is Run of a pool that has begun.
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

// closeOnce is for a channel that one goroutine closes.
func closeOnce(ch chan struct{}) {
	if !isClosed(ch) {
		close(ch)
	}
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// refuse tells the operator of what cannot be offered.
func (u *Upstream) refuse(kind mcp.Kind, name string, err error) {
	u.opts.Logger.Warn("something of a server is not offered", "kind", kind, "name", name, "error", err)
}

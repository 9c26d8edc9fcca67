package bridge

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	// maxUserAttempts is how often in a row opening the session of a user may fail. After
	// that, the next call of the user starts over.
	maxUserAttempts = 5
	// maxUserSessions is how many sessions one user may have: one for each set of client
	// capabilities.
	maxUserSessions = 4
)

// A pool has the sessions with one server. The main session reads the lists and carries calls where it may. The other
// sessions are keyed by principal and client capabilities.
type pool struct {
	opts      *ProxyOptions
	dialer    transport.Dialer
	suspended *client.SuspendedCalls
	main      *managedSession
	started   chan struct{} // closed when the pool runs for the first time
	isLegacy  atomic.Bool   // the last session was of the legacy era, so the next one is not asked for its versions

	mu         sync.Mutex
	ctx        context.Context // nil unless the pool runs
	sessions   map[sessionKey]*managedSession
	goroutines sync.WaitGroup // of sessions
}

// A sessionKey says which calls use a session. Client capabilities are part of it, since a
// legacy server learns them only when the session is opened.
type sessionKey struct {
	principal    string
	first        bool // the first session of the principal, whatever the capabilities
	capabilities clientCapabilities
}

func newPool(dialer transport.Dialer, opts *ProxyOptions, suspended *client.SuspendedCalls) *pool {
	p := &pool{opts: opts, dialer: dialer, suspended: suspended, sessions: make(map[sessionKey]*managedSession), started: make(chan struct{})}
	p.main = newSession(&managedSession{capabilities: listCapabilities, logger: p.opts.Logger})
	if opts.Lazy {
		p.main.idleTimeout, p.main.lazy = opts.IdleTimeout, opts.CachedCatalog != nil
	}
	return p
}

// start must precede run, with the same context. It returns false if the pool already runs.
func (p *pool) start(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx != nil {
		return false
	}
	p.ctx = ctx
	closeOnce(p.started)
	return true
}

// run keeps sessions open until ctx ends.
func (p *pool) run(ctx context.Context) {
	p.main.run(ctx)
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.goroutines.Wait()
}

func (p *pool) connect(ctx context.Context, principal string, opts client.Options) (*client.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.ConnectTimeout)
	defer cancel()
	dialer := p.dialer
	if p.opts.DialAs != nil {
		var err error
		if dialer, err = p.opts.DialAs(ctx, principal); err != nil {
			return nil, err
		}
	}
	opts.Info, opts.SuspendedCalls = p.opts.Info, p.suspended
	opts.ConnectTimeout, opts.Era = p.opts.ConnectTimeout, p.opts.Era
	if opts.Era == client.Auto && p.isLegacy.Load() {
		opts.Era = client.Legacy
	}
	opts.Limits, opts.Logger = p.opts.Limits, p.opts.Logger
	opts.Middleware, opts.OnSession = p.opts.Middleware, p.opts.OnSession
	opts.NoReconnect = true // managedSession reconnects
	session, err := client.Connect(ctx, dialer, &opts)
	p.isLegacy.Store(err == nil && session.Era() == client.Legacy) // after an error the server is asked again
	return session, err
}

// acquire returns an open session for calls of the caller. The managedSession must be
// released.
func (p *pool) acquire(ctx context.Context, caller *mcp.Caller) (*client.Session, *managedSession, error) {
	if err := p.waitStarted(ctx); err != nil {
		return nil, nil, err
	}
	session, s, err := p.find(ctx, caller)
	if err != nil && s != nil && s.is(statusStopped) && s != p.main {
		session, s, err = p.find(ctx, caller) // the session was closed as idle in the meantime
	}
	return session, s, err
}

// ErrNotStarted is the reason of errors of a [Bridge] or [Upstream] that was never started.
var ErrNotStarted = errors.New("the provider has not been started: mount it on a server, or call Start or Run")

// waitStarted waits until the pool runs, for a call that comes while it starts.
func (p *pool) waitStarted(ctx context.Context) error {
	if isClosed(p.started) {
		return nil
	}
	select {
	case <-p.started:
		return nil
	case <-time.After(restartTimeout):
		return ErrNotStarted
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns the session for the caller's principal and capabilities. Without such a session, it returns the first
// session of the principal if that can carry the caller's calls, or else a new session.
func (p *pool) find(ctx context.Context, caller *mcp.Caller) (*client.Session, *managedSession, error) {
	principal, capabilities := p.principalOf(caller), capabilitiesOf(&caller.Capabilities)
	own := sessionKey{principal: principal, capabilities: capabilities}
	if s := p.lookup(own); s != nil {
		session, err := s.acquire(ctx)
		return session, s, err
	}
	first := p.main
	if principal != "" {
		var err error
		if first, err = p.lookupOrStart(sessionKey{principal: principal, first: true}, capabilities); err != nil {
			return nil, nil, err
		}
	}
	session, err := first.acquire(ctx)
	if err != nil || first.carries(session, capabilities) {
		return session, first, err
	}
	first.release(ctx, false)
	s, err := p.lookupOrStart(own, capabilities)
	if err != nil {
		return nil, nil, err
	}
	session, err = s.acquire(ctx)
	return session, s, err
}

// rootsTimeout bounds how long a change of roots waits for one server to take it.
const rootsTimeout = 5 * time.Second

// rootsChanged notifies the server that the client has changed its roots, on the open sessions that
// carry calls of the client.
func (p *pool) rootsChanged(ctx context.Context, caller *mcp.Caller) {
	ctx, cancel := context.WithTimeout(ctx, rootsTimeout)
	defer cancel()
	var notifying sync.WaitGroup
	for _, session := range p.carrying(caller) {
		notifying.Go(func() {
			if err := session.RootsChanged(ctx); err != nil {
				p.opts.Logger.Warn("could not notify the server that roots have changed", "error", err)
			}
		})
	}
	notifying.Wait()
}

// carrying returns the open sessions that carry calls of the caller. It opens none.
func (p *pool) carrying(caller *mcp.Caller) (open []*client.Session) {
	principal, capabilities := p.principalOf(caller), capabilitiesOf(&caller.Capabilities)
	first := p.main
	if principal != "" {
		first = p.lookup(sessionKey{principal: principal, first: true})
	}
	for _, s := range []*managedSession{p.lookup(sessionKey{principal: principal, capabilities: capabilities}), first} {
		if s == nil {
			continue
		}
		if session := s.opened(); session != nil && s.carries(session, capabilities) {
			open = append(open, session)
		}
	}
	return open
}

// carries reports whether an open session can carry calls of clients with the capabilities.
func (s *managedSession) carries(session *client.Session, capabilities clientCapabilities) bool {
	return s.capabilities == capabilities || session.CanForward(capabilities.capabilities())
}

func (p *pool) principalOf(caller *mcp.Caller) string {
	if p.opts.Shared {
		return ""
	}
	return caller.Principal
}

func (p *pool) lookup(key sessionKey) *managedSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookupLocked(key)
}

// lookupLocked returns nil if there is no session, or if the session has stopped.
func (p *pool) lookupLocked(key sessionKey) *managedSession {
	if s := p.sessions[key]; s != nil && !s.is(statusStopped) {
		return s
	}
	return nil
}

var errTooManySessions = errors.New("too many users have sessions with the server, and all are in use")

// lookupOrStart returns the session with the key, or starts one with the capabilities.
func (p *pool) lookupOrStart(key sessionKey, capabilities clientCapabilities) (*managedSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.lookupLocked(key); s != nil {
		return s, nil
	}
	if p.ctx == nil {
		return nil, errStopped
	}
	if !p.makeRoom(key.principal) {
		return nil, errTooManySessions
	}
	ctx, cancel := context.WithCancel(p.ctx)
	s := newSession(&managedSession{capabilities: capabilities, idleTimeout: p.opts.IdleTimeout, maxAttempts: maxUserAttempts, stop: cancel, logger: p.opts.Logger})
	s.open = func(ctx context.Context) (*client.Session, error) {
		return p.connect(ctx, key.principal, client.Options{Capabilities: capabilities.capabilities()})
	}
	s.monitor = func(ctx context.Context, session *client.Session) error { return p.ping(ctx, s, session) }
	p.sessions[key] = s
	p.goroutines.Go(func() {
		defer cancel()
		s.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sessions[key] == s {
			delete(p.sessions, key)
		}
	})
	return s, nil
}

// makeRoom makes room for one more session of a principal, and reports whether there is any.
func (p *pool) makeRoom(principal string) bool {
	own := 0
	for key := range p.sessions {
		if key.principal == principal {
			own++
		}
	}
	switch {
	case own >= maxUserSessions:
		return p.evict(func(key sessionKey) bool { return key.principal == principal })
	case len(p.sessions) >= p.opts.MaxSessions:
		return p.evict(func(sessionKey) bool { return true })
	}
	return true
}

// evict stops the matching session that has been idle longest. It returns false if all are in use.
func (p *pool) evict(match func(sessionKey) bool) bool {
	var oldest sessionKey
	var since time.Time
	for key, s := range p.sessions {
		if inUse, lastUsed := s.usage(); match(key) && !inUse && (since.IsZero() || lastUsed.Before(since)) {
			oldest, since = key, lastUsed
		}
	}
	if since.IsZero() {
		return false
	}
	p.sessions[oldest].stop()
	delete(p.sessions, oldest)
	return true
}

// clientCapabilities are the capabilities of a client that matter to a server, in a form
// that can be compared.
type clientCapabilities struct {
	roots, form, url                           bool
	sampling, samplingTools, samplingInContext bool
	apps                                       bool
}

// listCapabilities are the client capabilities of the session for lists. With these the server lists all its entries.
var listCapabilities = clientCapabilities{roots: true, form: true, url: true, sampling: true, samplingTools: true, apps: true}

func capabilitiesOf(c *mcp.ClientCapabilities) clientCapabilities {
	has := clientCapabilities{roots: c.Roots != nil, apps: c.ShowsApps()}
	if e := c.Elicitation; e != nil {
		has.form, has.url = e.Form != nil || e.URL == nil, e.URL != nil // an empty capability means forms
	}
	if s := c.Sampling; s != nil {
		has.sampling, has.samplingTools, has.samplingInContext = true, s.Tools != nil, s.Context != nil
	}
	return has
}

func (has clientCapabilities) capabilities() *mcp.ClientCapabilities {
	c := new(mcp.ClientCapabilities)
	if has.roots {
		c.Roots = &mcp.RootsCapability{ListChanged: true} // see rootsChanged
	}
	if has.form || has.url {
		c.Elicitation = &mcp.ElicitationCapability{Form: emptyObject(has.form), URL: emptyObject(has.url)}
	}
	if has.sampling {
		c.Sampling = &mcp.SamplingCapability{Tools: emptyObject(has.samplingTools), Context: emptyObject(has.samplingInContext)}
	}
	if has.apps {
		c.DeclareApps()
	}
	return c
}

func emptyObject(present bool) *mcp.EmptyObject {
	if !present {
		return nil
	}
	return &mcp.EmptyObject{}
}

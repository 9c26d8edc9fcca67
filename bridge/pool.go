package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// maxUserAttempts is how often in a row opening the session of a user may fail. After that, the next call of the user
// starts over.
const maxUserAttempts = 5

// A pool has the sessions with one server. The main session reads the lists, and carries the calls of one principal, its
// owner, so that a server for one user is started once. Each other principal has a session of its own.
type pool struct {
	opts      *ProxyOptions
	dialer    transport.Dialer
	suspended *client.SuspendedCalls
	main      *managedSession
	started   chan struct{} // closed when the pool runs for the first time
	isLegacy  atomic.Bool   // the last session was of the legacy era, so the next one is not asked for its versions

	mu         sync.Mutex
	ctx        context.Context            // nil unless the pool runs
	owner      *string                    // nil until a principal calls
	sessions   map[string]*managedSession // by principal, without the main session
	goroutines sync.WaitGroup             // of sessions
}

func newPool(dialer transport.Dialer, opts *ProxyOptions, suspended *client.SuspendedCalls) *pool {
	p := &pool{opts: opts, dialer: dialer, suspended: suspended, sessions: make(map[string]*managedSession), started: make(chan struct{})}
	if p.isOwnerFixed() {
		p.owner = new(string)
	}
	p.main = newSession(&managedSession{logger: p.opts.Logger})
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
	if p.opts.NoLists {
		<-ctx.Done()
	} else {
		p.main.run(ctx)
	}
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.goroutines.Wait()
}

// disown takes the main session from its owner before it is opened again, unless calls wait for it: the server has lost what it
// kept for the owner.
func (p *pool) disown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if inUse, _ := p.main.usage(); !inUse && !p.isOwnerFixed() {
		p.owner = nil
	}
}

// isOwnerFixed reports whether no user can own the main session: it has no user's credentials, or all users share it.
func (p *pool) isOwnerFixed() bool { return p.opts.DialAs != nil || p.opts.Sessions == 1 }

// connect opens a session with the credentials of a principal.
func (p *pool) connect(ctx context.Context, s *managedSession, principal string, opts client.Options) (*client.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.ConnectTimeout)
	defer cancel()
	dialer := p.dialer
	if p.opts.DialAs != nil {
		var err error
		if dialer, err = p.opts.DialAs(ctx, principal); err != nil {
			return nil, err
		}
	}
	opts.Info, opts.Capabilities, opts.SuspendedCalls = p.opts.Info, allCapabilities(), p.suspended
	opts.ConnectTimeout, opts.Era = p.opts.ConnectTimeout, p.opts.Era
	if opts.Era == client.Auto && p.isLegacy.Load() {
		opts.Era = client.Legacy
	}
	opts.Limits, opts.Logger = p.opts.Limits, p.opts.Logger
	opts.Middleware, opts.OnSession, opts.OnLog = p.opts.Middleware, p.opts.OnSession, p.opts.OnLog
	opts.NoReconnect = true // managedSession reconnects
	opts.Roots = func(ctx context.Context) ([]mcp.Root, error) { return p.rootsOutsideOfCalls(ctx, s) }
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
	if p.opts.NoLists && p.principalOf(caller) == "" {
		return nil, nil, errNoPrincipal
	}
	for again := false; ; again = true {
		s, err := p.retain(ctx, p.principalOf(caller))
		if err != nil {
			return nil, nil, err
		}
		session, err := s.waitOpen(ctx)
		switch {
		case err == nil:
			return session, s, nil
		case s == p.main:
		case !again && s.is(statusStopped): // it was idle, or has failed for an earlier call
			s.release(ctx, false)
			continue
		case !s.wasOpened() && p.opts.DialAs == nil && p.isRunning() && ctx.Err() == nil:
			err = fmt.Errorf("%w (%w)", err, errFurtherSession)
		}
		s.release(ctx, false)
		return nil, nil, err
	}
}

var errNoPrincipal = errors.New("the server has sessions of users only, and the caller is not authenticated")

var errFurtherSession = errors.New(`another user has the first session with the server, and a further one could not be opened; with "sessions": 1 all users share one, and all that the server keeps in it`)

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

// rootsTimeout bounds how long a change of roots waits for one server to take it.
const rootsTimeout = 5 * time.Second

// rootsChanged notifies the server that the client has changed its roots, in the session that carries calls of the
// client, if it is open.
func (p *pool) rootsChanged(ctx context.Context, caller *mcp.Caller) {
	p.mu.Lock()
	s := p.lookup(p.principalOf(caller))
	p.mu.Unlock()
	if s == nil {
		return
	}
	session := s.opened()
	if session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rootsTimeout)
	defer cancel()
	if err := session.RootsChanged(ctx); err != nil {
		p.opts.Logger.Warn("could not notify the server that roots have changed", "error", err)
	}
}

// rootsOutsideOfCalls returns the roots of the only connected client with roots whose calls a session carries, and none if there
// are several.
func (p *pool) rootsOutsideOfCalls(ctx context.Context, s *managedSession) ([]mcp.Root, error) {
	sole := p.soleClient(s)
	if sole == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, rootsTimeout)
	defer cancel()
	return sole.ListRoots(ctx)
}

// soleClient returns the only connected client with roots whose calls a session carries, or nil. If it is the only one of all,
// its principal becomes the owner of the main session, unless that has one.
func (p *pool) soleClient(s *managedSession) (sole *server.RootsClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil
	}
	connected := server.RootsClients(p.ctx)
	if s == p.main && p.owner == nil && len(connected) == 1 {
		p.owner = new(p.principalOf(connected[0].Caller))
	}
	for i, c := range connected {
		switch {
		case p.lookup(p.principalOf(c.Caller)) != s:
		case sole != nil:
			return nil
		default:
			sole = &connected[i]
		}
	}
	return sole
}

func (p *pool) isRunning() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctx != nil
}

func (p *pool) principalOf(caller *mcp.Caller) string {
	if p.opts.Sessions == 1 {
		return ""
	}
	return caller.Principal
}

// lookup returns the session of a principal, nil if it has none or if it has stopped. p.mu is locked.
func (p *pool) lookup(principal string) *managedSession {
	if p.owner != nil && *p.owner == principal {
		return p.main
	}
	if s := p.sessions[principal]; s != nil && !s.is(statusStopped) {
		return s
	}
	return nil
}

var errTooManySessions = errors.New("too many users have sessions with the server, and all are in use")

// retain returns the session of a principal, with a user added. It starts one if there is none.
func (p *pool) retain(ctx context.Context, principal string) (*managedSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner == nil {
		p.owner = &principal
	}
	s := p.lookup(principal)
	if s == nil {
		var err error
		if s, err = p.startSession(principal); err != nil {
			return nil, err
		}
	}
	s.retain(ctx)
	return s, nil
}

// startSession starts the session of a principal. p.mu is locked.
func (p *pool) startSession(principal string) (*managedSession, error) {
	if p.ctx == nil {
		return nil, errStopped
	}
	if len(p.sessions)+1 >= p.opts.Sessions && !p.evict() {
		return nil, errTooManySessions
	}
	ctx, cancel := context.WithCancel(p.ctx)
	s := newSession(&managedSession{idleTimeout: p.opts.IdleTimeout, maxAttempts: maxUserAttempts, stop: cancel, logger: p.opts.Logger})
	s.open = func(ctx context.Context) (*client.Session, error) {
		return p.connect(ctx, s, principal, client.Options{})
	}
	s.monitor = func(ctx context.Context, session *client.Session) error { return p.ping(ctx, s, session) }
	p.sessions[principal] = s
	p.goroutines.Go(func() {
		defer cancel()
		s.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sessions[principal] == s {
			delete(p.sessions, principal)
		}
	})
	return s, nil
}

// restart ends all sessions and opens the main session again. The sessions of other principals are opened by their next calls.
// It returns false if the pool does not run.
func (p *pool) restart() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return false
	}
	p.isLegacy.Store(false) // it may be another version of the server
	for principal, s := range p.sessions {
		s.stop()
		delete(p.sessions, principal)
	}
	p.main.restart()
	return true
}

// end ends the session of a principal, if that is not the main session.
func (p *pool) end(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[principal]; s != nil {
		s.stop()
		delete(p.sessions, principal)
	}
}

// evict stops the session that has been idle longest. It returns false if all are in use.
func (p *pool) evict() bool {
	var oldest string
	var since time.Time
	for principal, s := range p.sessions {
		if inUse, lastUsed := s.usage(); !inUse && (since.IsZero() || lastUsed.Before(since)) {
			oldest, since = principal, lastUsed
		}
	}
	if since.IsZero() {
		return false
	}
	p.sessions[oldest].stop()
	delete(p.sessions, oldest)
	return true
}

// allCapabilities returns the capabilities that a legacy server learns: with these it lists all its entries, and may ask
// everything that a client can answer. A question that the caller of a call cannot answer is refused.
func allCapabilities() *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{
		Roots:       &mcp.RootsCapability{ListChanged: true}, // see rootsChanged
		Elicitation: &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}, URL: &mcp.EmptyObject{}},
		Sampling:    &mcp.SamplingCapability{Tools: &mcp.EmptyObject{}},
	}
	c.DeclareApps()
	return c
}

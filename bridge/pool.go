package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	// slotTries is how often in a row a session of one user is opened without success
	// before it is given up, until the user calls again.
	slotTries = 5
	// maxSlotsOfOne is how many sessions of one user there can be: one for each set of
	// questions that may be asked.
	maxSlotsOfOne = 4
)

// A pool has the sessions with one server: one that lists are read by, which serves
// calls too where it may, and others by whose and what for they are.
type pool struct {
	opts      *ProxyOptions
	dialer    transport.Dialer
	suspended *client.SuspendedCalls
	main      *slot
	begun     chan struct{} // closed when it runs for the first time

	mu      sync.Mutex
	ctx     context.Context // while it runs, nil otherwise
	slots   map[slotKey]*slot
	running sync.WaitGroup
}

// A slotKey says whose calls a session is for: a legacy server is told once what can
// be asked.
type slotKey struct {
	principal string
	first     bool // opened for whatever the user could be asked then
	can       askable
}

func newPool(dialer transport.Dialer, opts *ProxyOptions, suspended *client.SuspendedCalls) *pool {
	p := &pool{opts: opts, dialer: dialer, suspended: suspended, slots: make(map[slotKey]*slot), begun: make(chan struct{})}
	p.main = newSlot(&slot{can: everything})
	if opts.Lazy {
		p.main.idle, p.main.sleeps = opts.IdleTimeout, opts.CachedCatalog != nil
	}
	return p
}

// begin has run keep sessions open. It says whether nobody else does.
func (p *pool) begin(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx != nil {
		return false
	}
	p.ctx = ctx
	closeOnce(p.begun)
	return true
}

// run keeps sessions open until the context that it has begun with ends.
func (p *pool) run(ctx context.Context) {
	p.main.keep(ctx)
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.running.Wait()
}

// connect opens a session.
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
	opts.MaxReconnects = -1 // the slot does
	return client.Connect(ctx, dialer, &opts)
}

// acquire returns the session for the calls of a caller, and its slot, which must be released.
func (p *pool) acquire(ctx context.Context, caller *mcp.Caller) (*client.Session, *slot, error) {
	if err := p.await(ctx); err != nil {
		return nil, nil, err
	}
	session, s, err := p.find(ctx, caller)
	if err != nil && s != nil && s.is(Stopped) && s != p.main {
		session, s, err = p.find(ctx, caller) // it has just been stopped because nobody used it
	}
	return session, s, err
}

var errNotStarted = errors.New("the bridge has not been started")

// await waits until the pool runs, which it is about to.
func (p *pool) await(ctx context.Context) error {
	if isClosed(p.begun) {
		return nil
	}
	timer := time.NewTimer(restartPatience)
	defer timer.Stop()
	select {
	case <-p.begun:
		return nil
	case <-timer.C:
		return errNotStarted
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns the session for a caller: one for what this caller can be asked, if there is
// one, or else the first one of its user, unless it is for callers that can be asked
// something else.
func (p *pool) find(ctx context.Context, caller *mcp.Caller) (*client.Session, *slot, error) {
	principal := caller.Principal
	if p.opts.Shared {
		principal = ""
	}
	can := askableOf(&caller.Capabilities)
	own := slotKey{principal: principal, can: can}
	if s := p.existing(own); s != nil {
		session, err := s.acquire(ctx)
		return session, s, err
	}
	first := p.main
	if principal != "" {
		var err error
		if first, err = p.slot(slotKey{principal: principal, first: true}, can); err != nil {
			return nil, nil, err
		}
	}
	session, err := first.acquire(ctx)
	if err != nil || first.can == can || session.CanForward(can.capabilities()) {
		return session, first, err
	}
	first.release(ctx, false)
	s, err := p.slot(own, can)
	if err != nil {
		return nil, nil, err
	}
	session, err = s.acquire(ctx)
	return session, s, err
}

// existing returns the slot with the key, nil if there is none.
func (p *pool) existing(key slotKey) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slots[key]; s != nil && !s.is(Stopped) {
		return s
	}
	return nil
}

var errTooManySessions = errors.New("too many users have sessions with the server, and all are in use")

// slot returns the one with the key, and makes it if there is none.
func (p *pool) slot(key slotKey, can askable) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slots[key]; s != nil && !s.is(Stopped) {
		return s, nil
	}
	if p.ctx == nil {
		return nil, errStopped
	}
	if !p.makeRoom(key.principal) {
		return nil, errTooManySessions
	}
	ctx, cancel := context.WithCancel(p.ctx)
	s := newSlot(&slot{can: can, idle: p.opts.IdleTimeout, tries: slotTries, stop: cancel})
	s.open = func(ctx context.Context) (*client.Session, error) {
		return p.connect(ctx, key.principal, client.Options{Capabilities: can.capabilities()})
	}
	s.lasts = func(ctx context.Context, session *client.Session) error { return p.pings(ctx, s, session) }
	p.slots[key] = s
	p.running.Go(func() {
		defer cancel()
		s.keep(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.slots[key] == s {
			delete(p.slots, key)
		}
	})
	return s, nil
}

// makeRoom makes room for one more session, which is a user's.
func (p *pool) makeRoom(principal string) bool {
	own := 0
	for key := range p.slots {
		if key.principal == principal {
			own++
		}
	}
	switch {
	case own >= maxSlotsOfOne:
		return p.evict(func(key slotKey) bool { return key.principal == principal })
	case len(p.slots) >= p.opts.MaxSessions:
		return p.evict(func(slotKey) bool { return true })
	}
	return true
}

// evict stops the session that has been idle longest among some, if there is one.
func (p *pool) evict(among func(slotKey) bool) bool {
	var oldest slotKey
	var since time.Time
	for key, s := range p.slots {
		if busy, used := s.isBusy(); among(key) && !busy && (since.IsZero() || used.Before(since)) {
			oldest, since = key, used
		}
	}
	if since.IsZero() {
		return false
	}
	p.slots[oldest].stop()
	delete(p.slots, oldest)
	return true
}

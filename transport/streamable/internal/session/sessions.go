package session

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// openingTTL is how long a session may be idle after its handshake.
	openingTTL = 30 * time.Second
	// storeTimeout bounds operations of the store that belong to no request.
	storeTimeout = 5 * time.Second
	// leaseTTL is how long the lease of a replica lasts. A replica that cannot reach the store for
	// longer is considered dead.
	leaseTTL = 6 * time.Second
	// These bound the events in a store of its own in bytes, age and number for each
	// stream. Clients reconnect within seconds.
	ownLogBytes   = 10 << 20
	ownLogAge     = 5 * time.Minute
	ownLogEntries = 1000
	// maxEntryBuffer is the largest memory for entries that a stream keeps.
	maxEntryBuffer = 64 << 10
)

// Config configures [New]. All fields except Store, Realm and TrustedProxies must be set.
type Config struct {
	Server         transport.Binder // makes the handler of each session
	Store          store.Store      // of the sessions of all replicas; nil means a store of its own
	Realm          string           // the sessions of another realm are unknown, also in the same store
	Quota          *quota.Endpoint
	Limits         transport.Limits
	TrustedProxies []netip.Prefix
	KeepAlive      time.Duration // without events, after which a comment is sent
	Conn           jsonrpc.Options
	Logger         *slog.Logger
}

// Sessions are the sessions of an endpoint that are open in this replica. A session of another principal is
// treated as unknown. Its methods may be called concurrently.
type Sessions struct {
	config   Config
	store    store.Store
	memory   store.Store // the store, if no other replica has it
	records  state.Records[record]
	shared   bool // other replicas may use the store
	replicas *replicas

	unreadable *quota.Samples // errors of records that this replica cannot read

	ctx        context.Context // ends with Close
	cancel     context.CancelCauseFunc
	background sync.WaitGroup // goroutines for other replicas

	restoring singleflight.Group // by id and principal

	mu      sync.Mutex
	open    map[string]*session
	closed  bool
	calls   int            // without a reply
	idle    chan struct{}  // closed when calls is 0; nil if nothing waits for that
	working sync.WaitGroup // timers that have fired, and sessions that are ending
}

// New returns an empty table. The caller must call Close.
func New(config Config) (*Sessions, error) {
	t := &Sessions{config: config, store: config.Store, shared: config.Store != nil, unreadable: quota.NewSamples(config.Logger), open: make(map[string]*session)}
	if !t.shared {
		memory, err := store.NewMemory(&store.MemoryOptions{
			Limits: store.Limits{LogBytes: ownLogBytes, LogAge: ownLogAge, LogEntries: ownLogEntries},
			Bytes:  math.MaxInt64, // Limits bounds the sessions
		})
		if err != nil {
			return nil, err
		}
		t.store, t.memory = memory, memory
	}
	t.records = state.NewRecords[record](t.store, nil)
	t.replicas = newReplicas(t)
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t, nil
}

// Shared reports whether other replicas can serve the sessions.
func (t *Sessions) Shared() bool { return t.shared }

// Close ends all sessions in this replica and refuses new ones. It waits for the calls of sessions up to
// Config.Conn.Grace. It may be called more than once.
func (t *Sessions) Close() error {
	t.cancel(jsonrpc.ErrClosed)
	t.replicas.close()
	t.endAll()
	t.background.Wait()
	t.replicas.endLease()
	if t.memory != nil {
		return t.memory.Close()
	}
	return nil
}

var (
	errNoSession = errors.New("the session does not exist")
	// errUnreadable means that this replica cannot read the record of a session. The session ends here, and its client must begin
	// a new one. The record stays: a replica of a later version may have written it.
	errUnreadable = errors.New("the record of the session cannot be read")
)

// begin opens a session in this replica. prepare gives it a version, and a new record or the record of another replica.
func (t *Sessions) begin(id, principal, network string, idle time.Duration, prepare func(*session) error) (*session, error) {
	if err := t.replicas.start(); err != nil {
		return nil, err
	}
	holder := quota.HolderOf(principal, network)
	if err := t.config.Quota.Sessions.Acquire(holder); err != nil {
		return nil, busyError{err}
	}
	s := newSession(t, id, principal, network)
	err := prepare(s)
	if err == nil && !t.add(s, idle) {
		err = ErrShuttingDown
	}
	if err != nil {
		t.config.Quota.Sessions.Release(holder)
		s.close()
		return nil, err
	}
	return s, nil
}

// add opens a session in this replica. It returns false if a session with its id is open, or the
// endpoint is closed.
func (t *Sessions) add(s *session, idle time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.open[s.id] != nil {
		return false
	}
	t.open[s.id] = s
	s.until = time.Now().Add(idle)
	s.timer = time.AfterFunc(t.untilCheck(s), func() { t.check(s) })
	return true
}

// find returns the open session with an id and enters it. It returns nil if there is none, or it
// belongs to another principal.
func (t *Sessions) find(id, principal string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[id]
	if s == nil || s.principal != principal {
		return nil
	}
	s.users++
	return s
}

// Len returns how many sessions are open in this replica.
func (t *Sessions) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// local returns the open session with an id, or nil.
func (t *Sessions) local(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// all returns the open sessions.
func (t *Sessions) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.open))
}

// beginCall keeps a session from being idle until endCall is called.
func (t *Sessions) beginCall(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	s.users++
}

// endCall must be called after the reply has been sent.
func (t *Sessions) endCall(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls--; t.calls == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
	t.release(s)
}

// WaitForReplies waits until the calls in progress have their replies, for at most a second.
func (t *Sessions) WaitForReplies() {
	t.mu.Lock()
	idle := make(chan struct{})
	if t.calls > 0 {
		t.idle = idle
	} else {
		close(idle)
	}
	t.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(time.Second):
	}
}

func (t *Sessions) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(s)
}

func (t *Sessions) release(s *session) {
	s.users--
	s.used = true
	s.until = time.Now().Add(t.config.Limits.SessionTTL)
}

// untilCheck returns the time until the next check of a session. t.mu is held.
func (t *Sessions) untilCheck(s *session) time.Duration {
	refresh := t.config.Limits.SessionTTL / 4
	if s.users > 0 {
		return refresh
	}
	return min(refresh, time.Until(s.until))
}

// check ends an idle session. It refreshes the record of a session that has been used.
func (t *Sessions) check(s *session) {
	t.mu.Lock()
	if t.closed || s.ended {
		t.mu.Unlock()
		return
	}
	idle := s.users == 0 && time.Until(s.until) <= 0
	used := s.used || s.users > 0
	s.used = false
	if idle {
		t.remove(s)
	} else {
		s.timer.Reset(t.untilCheck(s))
		t.working.Add(1)
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if idle { // in this replica; in others, it may be used
		t.finish(ctx, s, !t.shared)
		return
	}
	defer t.working.Done()
	if !used {
		return
	}
	switch err := s.refresh(ctx); {
	case errors.Is(err, errNoSession):
		t.discard(ctx, s, true)
	case errors.Is(err, errUnreadable):
		t.discard(ctx, s, false)
	case err != nil:
		t.config.Logger.Warn("streamable: extending the life of a session failed", "error", err)
		t.mu.Lock()
		s.used = true // the next check tries again, before the record ends
		t.mu.Unlock()
	}
}

// end ends a session for its client, in all replicas. The others are notified before this one waits
// for the calls of the session.
func (t *Sessions) end(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := t.records.Delete(ctx, recordKey(s.id), nil); err != nil {
		return err
	}
	err := s.sessions.replicas.publish(ctx, notice{Session: s.id}, nil)
	t.discard(ctx, s, true)
	return err
}

// discard ends a session in this replica, unless it has ended. With forget, it deletes the session
// from the store.
func (t *Sessions) discard(ctx context.Context, s *session, forget bool) {
	t.mu.Lock()
	open := !s.ended
	if open {
		t.remove(s)
	}
	t.mu.Unlock()
	if open {
		t.finish(ctx, s, forget)
	}
}

// remove removes an open session, which the caller then finishes. t.mu is held.
func (t *Sessions) remove(s *session) {
	s.ended = true
	s.timer.Stop()
	delete(t.open, s.id)
	t.working.Add(1)
}

// finish ends what runs for a session that was removed. With forget, it deletes the session from
// the store.
func (t *Sessions) finish(ctx context.Context, s *session, forget bool) {
	defer t.working.Done()
	s.close()
	t.config.Quota.Sessions.Release(s.holder())
	if !forget {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := t.records.Delete(ctx, recordKey(s.id), nil)
	for _, key := range s.streamKeys() {
		err = errors.Join(err, t.store.Drop(ctx, key))
	}
	if err != nil {
		t.config.Logger.Warn("streamable: deleting a session failed", "error", err)
	}
}

// endAll ends all sessions in this replica and refuses new ones.
func (t *Sessions) endAll() {
	t.mu.Lock()
	t.closed = true
	open := slices.Collect(maps.Values(t.open))
	for _, s := range open {
		t.remove(s)
	}
	t.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range open {
		all.Go(func() { t.finish(context.Background(), s, false) })
	}
	all.Wait()
	t.working.Wait()
}

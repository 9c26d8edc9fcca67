package streamable

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// sessions contains the sessions that are open in this replica. A session of another principal is
// treated as unknown.
type sessions struct {
	opts    *Options
	store   store.Store
	records state.Records[record]
	shared  bool // other replicas may use the store
	quota   *quota.Quota

	restoring singleflight.Group // by id and principal

	mu      sync.Mutex
	open    map[string]*session
	closed  bool
	calls   int            // without a reply
	idle    chan struct{}  // closed when calls is 0; nil if nothing waits for that
	working sync.WaitGroup // timers that have fired, and sessions that are ending
}

var errNoSession = errors.New("the session does not exist")

// add opens a session in this replica. It returns false if a session with its id is open, or the
// endpoint is closed.
func (t *sessions) add(s *session, idle time.Duration) bool {
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
func (t *sessions) find(id, principal string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[id]
	if s == nil || s.principal != principal {
		return nil
	}
	s.users++
	return s
}

// local returns the open session with an id, or nil.
func (t *sessions) local(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// all returns the open sessions.
func (t *sessions) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.open))
}

// beginCall keeps a session from being idle until endCall is called.
func (t *sessions) beginCall(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	s.users++
}

// endCall must be called after the reply has been sent.
func (t *sessions) endCall(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls--; t.calls == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
	t.release(s)
}

// waitForReplies waits until the calls in progress have their replies, for at most a second.
func (t *sessions) waitForReplies() {
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

func (t *sessions) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(s)
}

func (t *sessions) release(s *session) {
	s.users--
	s.used = true
	s.until = time.Now().Add(t.opts.Limits.SessionTTL)
}

// untilCheck returns the time until the next check of a session. t.mu is held.
func (t *sessions) untilCheck(s *session) time.Duration {
	refresh := t.opts.Limits.SessionTTL / 4
	if s.users > 0 {
		return refresh
	}
	return min(refresh, time.Until(s.until))
}

// check ends an idle session. It refreshes the record of a session that has been used.
func (t *sessions) check(s *session) {
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
	case err != nil:
		t.opts.Logger.Warn("streamable: extending the life of a session failed", "error", err)
		t.retry(s)
	}
}

// retry refreshes the record of a session again soon, since it may expire.
func (t *sessions) retry(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.used = true
	if !s.ended && !t.closed {
		s.timer.Reset(min(storeTimeout, t.untilCheck(s)))
	}
}

// end ends a session for its client, in all replicas. The others are notified before this one waits
// for the calls of the session.
func (t *sessions) end(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := t.records.Delete(ctx, recordKey(s.id), nil); err != nil {
		return err
	}
	err := s.endpoint.replicas.publish(ctx, notice{Session: s.id}, nil)
	t.discard(ctx, s, true)
	return err
}

// discard ends a session in this replica, unless it has ended. With forget, it deletes the session
// from the store.
func (t *sessions) discard(ctx context.Context, s *session, forget bool) {
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
func (t *sessions) remove(s *session) {
	s.ended = true
	s.timer.Stop()
	delete(t.open, s.id)
	t.working.Add(1)
}

// finish ends what runs for a session that was removed. With forget, it deletes the session from
// the store.
func (t *sessions) finish(ctx context.Context, s *session, forget bool) {
	defer t.working.Done()
	s.close()
	t.quota.Release(s.principal)
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
		t.opts.Logger.Warn("streamable: deleting a session failed", "error", err)
	}
}

// close ends all sessions in this replica and refuses new ones.
func (t *sessions) close() {
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

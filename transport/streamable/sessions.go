package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/seats"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// sessions are those that are open in this process. An id that is not among them is
// unknown, and so is one that belongs to somebody else.
type sessions struct {
	opts  *Options
	seals *seals // nil: ids are random
	seats *seats.Seats

	mu     sync.Mutex
	open   map[string]*session
	closed bool
	ending sync.WaitGroup // those that end on their own
}

var errNoSession = errors.New("there is no such session")

func newSessions(opts *Options) (*sessions, error) {
	t := &sessions{opts: opts, seats: seats.New(opts.MaxSessions, opts.MaxPerPrincipal), open: make(map[string]*session)}
	if len(opts.SessionKeys) == 0 {
		return t, nil
	}
	var err error
	t.seals, err = newSeals(opts)
	return t, err
}

// admit gives a session that has a seat its id.
func (t *sessions) admit(s *session, handshake *jsonrpc.Request) error {
	s.id = rand.Text()
	if t.seals != nil {
		var err error
		if s.id, s.sealed, err = t.seals.seal(s, handshake); err != nil {
			return err
		}
	}
	if !t.add(s, min(openingTTL, t.opts.SessionTTL)) {
		return errNoSession
	}
	return nil
}

// add opens a session, unless one with its id has been opened meanwhile, or none may
// be opened any more.
func (t *sessions) add(s *session, idle time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.open[s.id] != nil {
		return false
	}
	t.open[s.id] = s
	s.until = time.Now().Add(idle)
	s.idle = time.AfterFunc(idle, func() { t.expire(s) })
	return true
}

// find returns the open session with that id, if it is the principal's. Who finds
// one has entered it.
func (t *sessions) find(id, principal string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[id]
	if s == nil || s.principal != principal || s.sealed != nil && !time.Now().Before(s.sealed.Expires) {
		return nil
	}
	t.use(s)
	return s
}

// enter keeps a session from being idle until somebody leaves.
func (t *sessions) enter(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.use(s)
}

func (t *sessions) use(s *session) {
	s.users++
	s.idle.Stop()
}

func (t *sessions) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 && !s.ended {
		s.until = time.Now().Add(t.opts.SessionTTL)
		s.idle.Reset(t.opts.SessionTTL)
	}
}

// expire ends a session that nobody uses.
func (t *sessions) expire(s *session) {
	if t.remove(s, true) {
		t.finish(context.Background(), s)
	}
}

// end ends a session that its client is done with. Its id ends first, or it would
// open the session again.
func (t *sessions) end(ctx context.Context, s *session) error {
	if t.seals != nil {
		if err := t.seals.end(ctx, s.sealed); err != nil {
			return err
		}
	}
	t.discard(ctx, s)
	return nil
}

// discard ends a session in this process, unless that has been done.
func (t *sessions) discard(ctx context.Context, s *session) {
	if t.remove(s, false) {
		t.finish(ctx, s)
	}
}

// remove takes a session out; it says whether it was still there. Who has removed
// one finishes it. One that was used when its time was up is not idle.
func (t *sessions) remove(s *session, ifIdle bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.ended || ifIdle && (s.users > 0 || time.Now().Before(s.until)) {
		return false
	}
	s.ended = true
	s.idle.Stop()
	delete(t.open, s.id)
	t.ending.Add(1)
	return true
}

func (t *sessions) finish(ctx context.Context, s *session) {
	defer t.ending.Done()
	s.close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	if err := t.opts.Events.Forget(ctx, s.id); err != nil {
		t.opts.Logger.Warn("streamable: the events of a session were not forgotten", "error", err)
	}
	t.seats.Leave(s.principal)
}

// close ends all sessions, and lets none begin.
func (t *sessions) close() {
	t.mu.Lock()
	t.closed = true
	open := make([]*session, 0, len(t.open))
	for _, s := range t.open {
		open = append(open, s)
	}
	t.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range open {
		all.Go(func() { t.discard(context.Background(), s) })
	}
	all.Wait()
	t.ending.Wait()
}

// session finds the session with that id: an open one, or one that its own id
// describes. Who finds one has entered it.
func (e *Endpoint) session(ctx context.Context, id, principal string) (*session, error) {
	if len(id) > maxSessionID {
		return nil, errNoSession
	}
	seals := e.sessions.seals
	s := e.sessions.find(id, principal)
	switch {
	case s == nil && seals == nil:
		return nil, errNoSession
	case s == nil:
		var err error
		if s, err = e.restore(ctx, id, principal); err != nil {
			return nil, err
		}
	case seals == nil || !seals.shared:
		return s, nil
	}
	if err := seals.check(ctx, s.sealed); err != nil { // ended by another process, or meanwhile
		e.sessions.leave(s)
		if errors.Is(err, errNoSession) {
			e.sessions.discard(ctx, s)
		}
		return nil, err
	}
	return s, nil
}

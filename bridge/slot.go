package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

const (
	// restartPatience is how long after a server has failed calls wait for it to be back.
	// One that is started for the first time, or was stopped because nobody used it, is
	// waited for.
	restartPatience = 200 * time.Millisecond
	// settled is how long a session must have held before the pauses between attempts
	// begin anew: a server that dies as soon as it is up must not be started for ever.
	settled = 10 * time.Second
	// askPatience is how long a session is kept for a call that waits in it while its
	// caller is asked: longer than the answer may take.
	askPatience = 12 * time.Minute
)

// A slot keeps one session with a server open: it is opened when it is needed, opened
// anew when it ends, and closed when nobody has used it for a while.
type slot struct {
	open   func(ctx context.Context) (*client.Session, error)
	lasts  func(ctx context.Context, s *client.Session) error // runs while the session is open; an error ends it
	can    askable                                            // what it is opened for
	idle   time.Duration                                      // after which it is closed, 0 for never
	sleeps bool                                               // it is not opened before it is needed
	tries  int                                                // attempts in a row, 0 for no bound
	stop   context.CancelFunc                                 // ends it; nil where it is not to be ended alone

	mu       sync.Mutex
	status   Status
	since    time.Time
	session  *client.Session // while Ready
	err      error           // why it is Failed
	failed   time.Time       // since when there has been no session that there should be
	restarts int
	using    int           // who has the session, or waits for it
	bounded  int           // of those, callers with a deadline of their own
	used     time.Time     // until when somebody needed it
	heard    time.Time     // when the server last gave a sign of life
	changed  chan struct{} // closed when status changes
	wanted   chan struct{} // has room for one who wants it opened
}

// A Status is the state of a server.
type Status string

// The states.
const (
	// Idle: it is not running, and will be started when it is needed.
	Idle Status = "idle"
	// Starting: it is being started, and calls wait for it.
	Starting Status = "starting"
	// Ready: it takes calls.
	Ready Status = "ready"
	// Failed: it could not be started or has ended, and will be started again after a
	// pause. Calls fail.
	Failed Status = "failed"
	// Stopped: it was stopped for good.
	Stopped Status = "stopped"
)

func newSlot(s *slot) *slot {
	s.status, s.since, s.used = Idle, time.Now(), time.Now()
	s.changed, s.wanted = make(chan struct{}), make(chan struct{}, 1)
	return s
}

// acquire returns the session, which must be released. It waits while the server is
// started, but not long for one that has failed.
func (s *slot) acquire(ctx context.Context) (*client.Session, error) {
	session := s.use(ctx)
	if session != nil {
		return session, nil
	}
	session, err := s.await(ctx)
	if err != nil {
		s.release(ctx, false)
	}
	return session, err
}

// use counts one more who needs the session, and returns it if it is open.
func (s *slot) use(ctx context.Context) *client.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.using++
	if deadline.Has(ctx) {
		s.bounded++
	}
	return s.session
}

// release counts one less, with the context of use. Who has asked its caller may have left
// a call open.
func (s *slot) release(ctx context.Context, asked bool) {
	until := time.Now()
	if asked {
		until = until.Add(askPatience)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.using--
	if deadline.Has(ctx) {
		s.bounded--
	}
	if until.After(s.used) {
		s.used = until
	}
}

func (s *slot) await(ctx context.Context) (*client.Session, error) {
	for {
		s.mu.Lock()
		status, session, reason, failed, changed := s.status, s.session, s.err, s.failed, s.changed
		s.mu.Unlock()
		switch status {
		case Ready:
			return session, nil
		case Stopped:
			return nil, cmp.Or(reason, errStopped)
		}
		s.want()
		switch err := awaitChange(ctx, changed, failed); {
		case err == errRestarting:
			return nil, cmp.Or(reason, err)
		case err != nil:
			return nil, err
		}
	}
}

// awaitChange waits for a change, but not long after a failure.
func awaitChange(ctx context.Context, changed <-chan struct{}, failed time.Time) error {
	if !failed.IsZero() {
		patient, cancel := context.WithDeadlineCause(ctx, failed.Add(restartPatience), errRestarting)
		defer cancel()
		ctx = patient
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	errStopped    = errors.New("the server has been stopped")
	errRestarting = errors.New("the server is being started again")
	errSilent     = errors.New("the server gave no sign of life")
)

// want has the session opened, if it is not.
func (s *slot) want() { signal(s.wanted) }

// isBusy says whether anybody needs the session, and until when somebody did.
func (s *slot) isBusy() (busy bool, used time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.using > 0, s.used
}

// hear notes a sign of life.
func (s *slot) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// mayBeSilent reports whether a call may be the reason that nothing is heard: one with a
// deadline of its caller, or one that has not timed out yet.
func (s *slot) mayBeSilent(patience time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bounded > 0 || s.using > 0 && time.Since(s.heard) <= patience
}

func (s *slot) is(status Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status == status
}

// now is the state, and what is closed when it changes.
func (s *slot) now() (Status, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.changed, s.err
}

func (s *slot) set(status Status, session *client.Session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(status, session, err)
}

// turn is set with the lock held.
func (s *slot) turn(status Status, session *client.Session, err error) {
	s.status, s.session, s.err, s.since = status, session, err, time.Now()
	switch status {
	case Failed:
		s.restarts++
		if s.failed.IsZero() {
			s.failed = s.since
		}
	case Ready, Idle:
		s.failed = time.Time{}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep runs the slot until ctx ends. It returns as soon as the server could not be
// started in as many attempts as it has, or, but for what is kept, nobody uses it.
func (s *slot) keep(ctx context.Context) {
	var reason error
	defer func() { s.set(Stopped, nil, reason) }()
	pause := backoff.Backoff{}
	attempts := 0
	if s.sleeps && !s.rest(ctx) {
		return
	}
	for ctx.Err() == nil {
		if !s.is(Failed) {
			s.set(Starting, nil, nil)
		}
		session, err := s.open(ctx)
		if err == nil {
			opened := time.Now()
			s.set(Ready, session, nil)
			err = s.hold(ctx, session)
			if err == nil && !s.rest(ctx) {
				return
			}
			if err == nil || time.Since(opened) >= settled {
				attempts = 0
				pause.Reset()
			}
			if err == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		s.set(Failed, nil, err)
		if attempts++; s.tries > 0 && attempts >= s.tries {
			reason = err
			return
		}
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// hold waits until the session ends, and says why; nil means that nobody uses it.
func (s *slot) hold(ctx context.Context, session *client.Session) error {
	defer session.Close()
	lasting, stop := context.WithCancel(ctx)
	given := make(chan error, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { given <- s.lasts(lasting, session) })
	var look <-chan time.Time
	if s.idle > 0 {
		ticker := time.NewTicker(max(s.idle/4, time.Millisecond))
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-session.Done():
			return fmt.Errorf("the session has ended: %w", jsonrpc.ErrClosed)
		case err := <-given:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look:
			if s.retire() {
				return nil
			}
		}
	}
}

// retire takes the session out of use, if nobody has needed it for long enough. Who
// wants it from now on is heard.
func (s *slot) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.using > 0 || time.Since(s.used) < s.idle {
		return false
	}
	select {
	case <-s.wanted: // while it was opened
	default:
	}
	s.turn(Idle, nil, nil)
	return true
}

// rest waits until the session is wanted. A slot that need not be kept ends.
func (s *slot) rest(ctx context.Context) bool {
	if s.tries > 0 {
		return false
	}
	select {
	case <-s.wanted:
		return true
	case <-ctx.Done():
		return false
	}
}

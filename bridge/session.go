package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	// restartTimeout is how long after a failure calls wait for the server to be ready
	// again. Calls wait longer for a server that starts for the first time, or after it was
	// idle.
	restartTimeout = 200 * time.Millisecond
	// stableAfter is how long a session must last before the pauses between restarts start
	// from the beginning.
	stableAfter = 10 * time.Second
	// suspendTimeout is how long a session is kept for a suspended call, while its caller is
	// asked a question: longer than the answer may take.
	suspendTimeout = 12 * time.Minute
	// transportTimeout is the default timeout of calls in the transports.
	transportTimeout = time.Minute
	// pingTimeout bounds the wait for the reply to a ping.
	pingTimeout = 15 * time.Second
)

// The statuses.
const (
	// Idle means that the server does not run and will be started when it is needed.
	statusIdle = "idle"
	// Starting means that the server is being started. Calls wait.
	statusStarting = "starting"
	// Ready means that the server takes calls.
	statusReady = "ready"
	// Failed means that the server could not be started or has ended, and will be started
	// again after a pause. Calls fail.
	statusFailed = "failed"
	// Stopped means that the server has been stopped and will not be started again.
	statusStopped = "stopped"
)

// A managedSession keeps one session with a server open. It opens the session when a call needs it, reopens the session
// when it ends, and closes the session when it is idle.
type managedSession struct {
	open        func(ctx context.Context) (*client.Session, error)
	monitor     func(ctx context.Context, s *client.Session) error // runs while the session is open; an error closes it
	idleTimeout time.Duration                                      // 0 means never
	lazy        bool                                               // opened only on request, since a cached catalog has the lists
	maxAttempts int                                                // to open, in a row; 0 means no limit, and that run continues when the session was idle
	stop        context.CancelFunc                                 // nil for the session for lists
	logger      *slog.Logger

	mu            sync.Mutex
	status        string
	since         time.Time
	session       *client.Session    // set while status is Ready
	version       mcp.Version        // of the last session
	nextTry       time.Time          // zero unless status is Failed
	endAttempt    context.CancelFunc // nil until run begins; see begin
	hasOpened     bool               // the status has been Ready
	err           error              // why the status is Failed
	failedSince   time.Time          // zero unless the session should be open and is not
	restarts      int
	users         int           // those that use the session or wait for it
	deadlines     int           // users with a deadline of their own
	lastUsed      time.Time     // may be in the future; see release
	lastReply     time.Time     // of the server
	answered      bool          // a call since the session was opened
	statusChanged chan struct{} // closed when status changes
	requested     chan struct{} // receives one value when the session should be opened
}

func newSession(s *managedSession) *managedSession {
	s.status, s.since, s.lastUsed = statusIdle, time.Now(), time.Now()
	s.statusChanged, s.requested = make(chan struct{}), make(chan struct{}, 1)
	return s
}

var (
	errStopped    = errors.New("the server has been stopped")
	errRestarting = errors.New("the server is being restarted")
	errSilent     = errors.New("the server does not reply to pings")
)

// retain adds a user.
func (s *managedSession) retain(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	if deadline.Has(ctx) {
		s.deadlines++
	}
}

// release removes a user, with the context given to retain. After a suspended call the
// session is kept for the time of the answer.
func (s *managedSession) release(ctx context.Context, suspended bool) {
	until := time.Now()
	if suspended {
		until = until.Add(suspendTimeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if deadline.Has(ctx) {
		s.deadlines--
	}
	if until.After(s.lastUsed) {
		s.lastUsed = until
	}
}

// waitOpen returns the open session. It waits while the server starts, and up to restartTimeout after a failure.
func (s *managedSession) waitOpen(ctx context.Context) (*client.Session, error) {
	for {
		s.mu.Lock()
		status, session, reason, failedSince, changed := s.status, s.session, s.err, s.failedSince, s.statusChanged
		s.mu.Unlock()
		switch status {
		case statusReady:
			return session, nil
		case statusStopped:
			return nil, cmp.Or(reason, errStopped)
		}
		s.requestOpen()
		switch err := waitChange(ctx, changed, failedSince); {
		case err == errRestarting:
			return nil, cmp.Or(reason, err)
		case err != nil:
			return nil, err
		}
	}
}

// waitChange waits until changed is closed, for at most restartTimeout after a failure.
func waitChange(ctx context.Context, changed <-chan struct{}, failedSince time.Time) error {
	if !failedSince.IsZero() {
		bounded, cancel := context.WithDeadlineCause(ctx, failedSince.Add(restartTimeout), errRestarting)
		defer cancel()
		ctx = bounded
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requestOpen makes run open the session if it is idle.
func (s *managedSession) requestOpen() { signal(s.requested) }

// opened returns the session if it is open, and otherwise nil.
func (s *managedSession) opened() *client.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

func (s *managedSession) usage() (inUse bool, lastUsed time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users > 0, s.lastUsed
}

func (s *managedSession) recordReply() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReply = time.Now()
}

// recordAnswer records the answer to a call.
func (s *managedSession) recordAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReply, s.answered = time.Now(), true
}

// takeAnswered reports whether a call was answered since takeAnswered was called last.
func (s *managedSession) takeAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.answered = false }()
	return s.answered
}

// waitReplaced waits until a session that has ended is not used for further calls.
func (s *managedSession) waitReplaced(ctx context.Context, ended *client.Session) error {
	for {
		s.mu.Lock()
		session, changed := s.session, s.statusChanged
		s.mu.Unlock()
		if session != ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mayBeBusy reports whether running calls may be the reason for unanswered pings. Such calls have a deadline of their
// caller, or may take up to timeout without progress.
func (s *managedSession) mayBeBusy(timeout time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadlines > 0 || s.users > 0 && time.Since(s.lastReply) <= timeout
}

func (s *managedSession) is(status string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status == status
}

// wasOpened reports whether the session has been open.
func (s *managedSession) wasOpened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasOpened
}

// state returns the status, a channel that is closed when it changes, and the error.
func (s *managedSession) state() (string, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.statusChanged, s.err
}

func (s *managedSession) setState(status string, session *client.Session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setStateLocked(status, session, err)
}

// fail records that the session could not be opened or has ended, and is opened again after a pause, unless that is 0.
func (s *managedSession) fail(err error, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setStateLocked(statusFailed, nil, err)
	if pause == 0 {
		s.logger.Warn("the server failed", "error", err)
		return
	}
	s.nextTry = s.since.Add(pause)
	s.logger.Warn("the server failed", "error", err, "again_in", pause-pause%(100*time.Millisecond))
}

func (s *managedSession) setStateLocked(status string, session *client.Session, err error) {
	s.status, s.session, s.err, s.since, s.nextTry = status, session, err, time.Now(), time.Time{}
	if session != nil {
		s.version = session.Version()
	}
	s.hasOpened = s.hasOpened || status == statusReady
	switch status {
	case statusFailed:
		s.restarts++
		if s.failedSince.IsZero() {
			s.failedSince = s.since
		}
	case statusReady, statusIdle:
		s.logger.Info("the server is " + status)
		s.failedSince = time.Time{}
	case statusStarting:
		s.failedSince = time.Time{}
	case statusStopped:
		s.logger.Info("the server was stopped")
	}
	close(s.statusChanged)
	s.statusChanged = make(chan struct{})
}

// run manages the session until ctx ends. If maxAttempts is set, run also returns after that
// many failures in a row, and when the session is idle.
func (s *managedSession) run(ctx context.Context) {
	var reason error
	defer func() { s.setState(statusStopped, nil, reason) }()
	if s.lazy && !s.waitRequested(ctx) {
		return
	}
	again := retries{}
	for more := true; more && ctx.Err() == nil; {
		more, reason = s.runOnce(ctx, &again)
	}
}

// retries are the attempts to open a session that have failed in a row.
type retries struct {
	pause    backoff.Backoff
	attempts int
}

func (r *retries) reset() {
	r.attempts = 0
	r.pause.Reset()
}

// runOnce opens the session, waits until it ends, and pauses until the next attempt. It reports whether the session is to be
// opened again, and if not, why it failed.
func (s *managedSession) runOnce(ctx context.Context, again *retries) (more bool, reason error) {
	attempt, end := s.begin(ctx)
	defer end()
	session, err := s.open(attempt)
	lost := false
	if err == nil {
		opened := time.Now()
		s.setReady(attempt, session)
		err = s.waitClosed(attempt, session)
		if err == nil && !s.waitRequested(ctx) {
			return false, nil
		}
		lost = errors.Is(err, transport.ErrSessionLost)
		if answered := s.takeAnswered(); err == nil || lost && answered || time.Since(opened) >= stableAfter {
			again.reset()
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, nil
	case attempt.Err() != nil:
		s.logger.Info("the server is restarted on request")
	case err == nil:
	case lost && again.attempts < maxSentAgain: // the server runs, so calls wait for the next session
		s.logger.Info("the server has lost the session", "error", err)
		s.setState(statusStarting, nil, nil)
		again.attempts++
		_ = again.pause.Wait(attempt)
	default:
		if again.attempts++; s.maxAttempts > 0 && again.attempts >= s.maxAttempts {
			s.fail(err, 0)
			return false, err
		}
		pause := again.pause.Next()
		s.fail(err, pause)
		_ = backoff.Sleep(attempt, pause)
	}
	if attempt.Err() != nil {
		again.reset()
		s.leaveFailed()
	}
	return true, nil
}

// begin returns the context of the next attempt to open the session, of the session, and of the pause after it. restart ends it.
func (s *managedSession) begin(ctx context.Context) (attempt context.Context, end context.CancelFunc) {
	attempt, end = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endAttempt = end
	if s.status != statusFailed && s.status != statusStarting {
		s.setStateLocked(statusStarting, nil, nil)
	}
	return attempt, end
}

// setReady lets calls use an open session, unless its attempt was ended.
func (s *managedSession) setReady(attempt context.Context, session *client.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if attempt.Err() == nil {
		s.setStateLocked(statusReady, session, nil)
	}
}

// leaveFailed makes calls wait for the next attempt to open the session.
func (s *managedSession) leaveFailed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == statusFailed {
		s.setStateLocked(statusStarting, nil, nil)
	}
}

// restart ends the session, or the attempt to open it, or the pause before the next attempt, and makes run open the session. Calls that
// begin after it wait for the next session.
func (s *managedSession) restart() {
	s.mu.Lock()
	if s.endAttempt != nil {
		s.endAttempt()
	}
	if s.status == statusReady || s.status == statusFailed {
		s.setStateLocked(statusStarting, nil, nil)
	}
	s.mu.Unlock()
	s.requestOpen()
}

// waitClosed waits until the session ends and returns the reason, or until it is idle and
// returns nil. It closes the session.
func (s *managedSession) waitClosed(ctx context.Context, session *client.Session) error {
	defer session.Close()
	monitored, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { failed <- s.monitor(monitored, session) })
	var idleCheck <-chan time.Time
	if s.idleTimeout > 0 {
		ticker := time.NewTicker(max(s.idleTimeout/4, time.Millisecond))
		defer ticker.Stop()
		idleCheck = ticker.C
	}
	for {
		select {
		case <-session.Done():
			return fmt.Errorf("the session has ended: %w", session.Err())
		case err := <-failed:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-idleCheck:
			if s.closeIdle() {
				return nil
			}
		}
	}
}

// closeIdle sets the status to Idle if the session has not been used for idleTimeout.
// Requests from then on reopen the session.
func (s *managedSession) closeIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 || time.Since(s.lastUsed) < s.idleTimeout {
		return false
	}
	drain(s.requested)
	s.setStateLocked(statusIdle, nil, nil)
	return true
}

// waitRequested waits until the session should be opened again. It returns false if run
// should end instead.
func (s *managedSession) waitRequested(ctx context.Context) bool {
	if s.maxAttempts > 0 {
		return false
	}
	select {
	case <-s.requested:
		return true
	case <-ctx.Done():
		return false
	}
}

// ping sends pings until ctx ends. It returns errSilent if two in a row are not answered. A
// server that works on one call at a time does not answer during the call: it may be silent
// for as long as a call may take without progress.
func (p *pool) ping(ctx context.Context, s *managedSession, session *client.Session) error {
	if p.opts.PingInterval < 0 {
		return nil
	}
	timeout := max(p.opts.CallTimeout, transportTimeout) + p.opts.PingInterval
	ticker := time.NewTicker(p.opts.PingInterval)
	defer ticker.Stop()
	missed := 0
	s.recordReply()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if p.isAlive(ctx, session) {
			missed = 0
			s.recordReply()
			continue
		}
		if missed++; missed > 1 && !s.mayBeBusy(timeout) {
			return errSilent
		}
	}
}

// isAlive reports whether the server replies to a ping, with a result or an error.
func (p *pool) isAlive(ctx context.Context, session *client.Session) bool {
	ctx, cancel := context.WithTimeout(ctx, min(p.opts.PingInterval, pingTimeout))
	defer cancel()
	err := session.Ping(ctx)
	return err == nil || refusalOf(err) != nil
}

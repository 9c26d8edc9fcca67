package toolserver

import (
	"context"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/client"
)

// A launched server is being started, running or being stopped. Its goroutine alone starts and
// stops it.
type launched struct {
	*launch

	name  ownedName
	life  context.Context // until it is to stop
	stop  context.CancelCauseFunc
	ready chan struct{} // closed when it has been started, or could not be
	ended chan struct{} // closed when it has been stopped

	session *client.Session // once it is ready
	err     error           // why it could not be started

	calls int       // guarded by launcher.mu, as is
	since time.Time // from when there have been none
}

// keep starts a server, and stops it when it is to stop or has ended.
func (l *launcher) keep(s *launched) {
	log := l.opts.Logger.With("server", s.name.name, "caller", s.name.principal)
	defer l.remove(s)
	defer s.stop(nil)
	ctx, cancel := context.WithTimeout(s.life, l.opts.ConnectTimeout)
	defer cancel()
	session, err := l.start(ctx, s)
	if err != nil {
		s.err = s.failure(ctx, err)
		log.Warn("a server could not be started", "launch", s.text, "error", s.scrub(err.Error()))
		l.reject(s) // before anybody is told, who may try again
		close(s.ready)
		return
	}
	defer func() { <-l.semaphore }()
	s.session = session
	close(s.ready)
	log.Info("a server was started", "launch", s.text)
	reason := l.watch(s)
	l.reject(s)
	_ = session.Close() // it has no error of its own
	log.Info("a server has ended", "reason", reason)
}

// start waits for a place and takes it.
func (l *launcher) start(ctx context.Context, s *launched) (*client.Session, error) {
	select {
	case l.semaphore <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	session, err := s.open(ctx, l.opts)
	if err != nil {
		<-l.semaphore
	}
	return session, err
}

// watch returns when a server is to stop, and says why.
func (l *launcher) watch(s *launched) (reason slog.Value) {
	idle := time.NewTimer(l.opts.IdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-s.session.Done():
			return slog.AnyValue(errEnded)
		case <-s.life.Done():
			return slog.AnyValue(context.Cause(s.life))
		case <-idle.C:
			left := l.idle(s)
			if left <= 0 {
				return slog.AnyValue(errIdle)
			}
			idle.Reset(left)
		}
	}
}

// idle says how long a server may stay idle yet. One that may not takes no more calls.
func (l *launcher) idle(s *launched) (left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.calls > 0 {
		return l.opts.IdleTimeout
	}
	left = l.opts.IdleTimeout - time.Since(s.since)
	if left <= 0 && l.servers[s.name] == s {
		delete(l.servers, s.name)
	}
	return left
}

// isOver says whether a server takes no more calls.
func (s *launched) isOver() bool {
	if s.life.Err() != nil {
		return true
	}
	select {
	case <-s.ready:
	default:
		return false
	}
	if s.err != nil {
		return true
	}
	select {
	case <-s.session.Done():
		return true
	default:
		return false
	}
}

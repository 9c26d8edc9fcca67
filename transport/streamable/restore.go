package streamable

import (
	"context"
	"errors"
)

// session returns the session with an id and enters it. It restores a session that is not open in
// this replica.
func (e *Endpoint) session(ctx context.Context, id, principal string) (*session, error) {
	if s := e.sessions.find(id, principal); s != nil {
		return s, nil
	}
	_, err, _ := e.sessions.restoring.Do(id+"\x00"+principal, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // other requests wait for it
		defer cancel()
		return nil, e.restore(ctx, id, principal)
	})
	if err != nil {
		return nil, err
	}
	if s := e.sessions.find(id, principal); s != nil {
		return s, nil
	}
	return nil, errNoSession
}

// A busyError is the error of a limit. Its text is meant for the client.
type busyError struct{ error }

var errShuttingDown = errors.New("the server is shutting down")

// restore opens a session of the store in this replica, if it is not open.
func (e *Endpoint) restore(ctx context.Context, id, principal string) error {
	stored, err := e.sessions.load(ctx, id)
	switch {
	case err != nil:
		return err
	case !stored.Value.belongsTo(principal), stored.Value.State == nil: // without a state, it exists only where it was opened
		return errNoSession
	case e.sessions.local(id) != nil:
		return nil
	}
	if err := e.replicas.start(); err != nil {
		return err
	}
	if err := e.sessions.quota.Acquire(principal); err != nil {
		return busyError{err}
	}
	s := newSession(e, principal)
	s.id, s.version = id, stored.Value.Version
	if err = s.apply(ctx, stored); err == nil && !e.sessions.add(s, e.opts.Limits.SessionTTL) {
		err = busyError{errShuttingDown}
	}
	if err != nil {
		e.sessions.quota.Release(principal)
		s.close()
		return err
	}
	// Earlier notices of changes were ignored, so the record is read again.
	if err := s.refresh(ctx); err != nil {
		e.sessions.discard(ctx, s, false)
		return err
	}
	return nil
}

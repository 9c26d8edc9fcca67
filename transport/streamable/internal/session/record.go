package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A record is a session in the store, with the state of its handler. Without a state, only the replica that has opened the
// session can serve it.
type record struct {
	Principal []byte          `json:"principal,omitempty"` // hash, with the realm
	Version   mcp.Version     `json:"version"`
	State     json.RawMessage `json:"state,omitempty"`
}

// recordKey returns the key of a session.
func recordKey(session string) string { return "sessions/" + session }

// hashPrincipal returns the hash of a client in the realm of the sessions. Without a realm, it returns nothing for a client
// that is not authenticated.
func (t *Sessions) hashPrincipal(principal string) []byte {
	client := "principal\x00" + principal
	if t.config.Realm != "" {
		client = fmt.Sprintf("realm\x00%d\x00%s%s", len(t.config.Realm), t.config.Realm, client)
	} else if principal == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(client))
	return sum[:]
}

// owns reports whether a record is of a client in the realm of the sessions.
func (t *Sessions) owns(r *record, principal string) bool {
	return bytes.Equal(r.Principal, t.hashPrincipal(principal))
}

// create stores the record of a new session.
func (s *session) create(ctx context.Context) error {
	r := record{Principal: s.sessions.hashPrincipal(s.principal), Version: s.version}
	if s.stateful != nil {
		r.State = s.stateful.State()
	}
	stored, err := s.sessions.records.Create(ctx, recordKey(s.id), r, s.sessions.recordEnd(openingTTL))
	s.applied = stored.Revision()
	return err
}

// load returns the record of a session, or [errNoSession] or [errUnreadable].
func (t *Sessions) load(ctx context.Context, id string) (*state.Record[record], error) {
	if store.CheckName(recordKey(id)) != nil { // an endpoint makes no such id
		return nil, errNoSession
	}
	stored, err := t.records.Load(ctx, recordKey(id))
	if err == nil && stored.Value.Version == "" {
		err = fmt.Errorf("%w: it has no version", state.ErrUnreadable)
	}
	return stored, t.errorOf(err)
}

// errorOf returns the error of an operation with a record: [errNoSession], [errUnreadable], or the error of the store.
func (t *Sessions) errorOf(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return errNoSession
	case errors.Is(err, state.ErrUnreadable):
		t.unreadable.Log(slog.LevelError, "streamable: the record of a session cannot be read", "error", err)
		return errUnreadable
	}
	return err
}

// recordEnd returns the end of a record whose session may be idle for some time. It is later,
// since the record is refreshed only now and then, and the clocks of replicas may differ by a minute.
// Without replicas, it does not end: the session deletes it, after a time that does not include sleep of the machine.
func (t *Sessions) recordEnd(idle time.Duration) time.Time {
	if !t.shared {
		return time.Time{}
	}
	return time.Now().Add(idle + idle/4 + time.Minute)
}

// session returns the session with an id, for its client, and enters it. It restores a session that is not open in
// this replica.
func (t *Sessions) session(r *http.Request, id string) (*session, error) {
	principal := transport.Principal(r.Context())
	if s := t.find(id, principal); s != nil {
		return s, nil
	}
	_, err, _ := t.restoring.Do(id+"\x00"+principal, func() (any, error) {
		network := t.network(r)
		ctx := transport.WithRequest(context.WithoutCancel(r.Context()), network, textproto.MIMEHeader(r.Header), id)
		ctx, cancel := context.WithTimeout(ctx, storeTimeout) // other requests wait for it
		defer cancel()
		return nil, t.restore(ctx, id, principal, network)
	})
	if err != nil {
		return nil, err
	}
	if s := t.find(id, principal); s != nil {
		return s, nil
	}
	return nil, errNoSession
}

// A busyError is the error of a limit. Its text is meant for the client.
type busyError struct{ error }

// ErrShuttingDown is the error of requests after Close.
var ErrShuttingDown error = busyError{errors.New("the server is shutting down")}

// restore opens a session of the store in this replica, if it is not open.
func (t *Sessions) restore(ctx context.Context, id, principal, network string) error {
	stored, err := t.load(ctx, id)
	switch {
	case err != nil:
		return err
	case !t.owns(&stored.Value, principal), stored.Value.State == nil: // without a state, it exists only where it was opened
		return errNoSession
	case t.local(id) != nil:
		return nil
	}
	s, err := t.begin(id, principal, network, t.config.Limits.SessionTTL, func(s *session) error {
		s.version = stored.Value.Version
		return s.apply(ctx, stored)
	})
	if err != nil {
		return err
	}
	// Earlier notices of changes were ignored, so the record is read again.
	if err := s.refresh(ctx); err != nil {
		t.discard(ctx, s, false)
		return err
	}
	return nil
}

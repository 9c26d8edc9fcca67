package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/textproto"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// A session is what a handshake opens: a handler and everything that runs for it in this replica.
// It has one stream for unsolicited messages and one for each call.
type session struct {
	sessions    *Sessions
	id          string
	principal   string
	network     string
	version     mcp.Version
	handler     jsonrpc.Handler
	stateful    transport.SessionHandler // the handler, or nil if it has no state
	conn        *jsonrpc.Conn
	unsolicited *stream

	applyMu sync.Mutex  // held while the record or what follows from it changes
	applied uint64      // revision of the record that the handler has
	stale   atomic.Bool // another replica has changed the record, and it will be reloaded

	mu        sync.Mutex
	streams   []*stream          // the streams that a client can resume
	followers map[string]*func() // by stream

	// Guarded by sessions.mu.
	users int         // requests and calls in progress
	timer *time.Timer // of check
	until time.Time   // when the session ends if it is idle
	used  bool        // since the record was refreshed
	ended bool
}

func newSession(t *Sessions, id, principal, network string) *session {
	s := &session{sessions: t, id: id, principal: principal, network: network}
	s.unsolicited = &stream{session: s}
	conn := t.config.Conn
	conn.Limiter = t.config.Quota.Client(s.holder())
	if t.shared {
		conn.FirstID = firstQuestion(t.replicas.id)
	}
	s.conn = jsonrpc.NewConn(nil, func(c *jsonrpc.Conn) jsonrpc.Handler {
		s.unsolicited.Peer = c.PeerVia(s.unsolicited.Write)
		s.handler = t.config.Server.Bind(transport.Link{Peer: s.unsolicited, Input: c.Input(), Go: c.Go, Principal: principal, Network: network, State: s})
		s.stateful, _ = s.handler.(transport.SessionHandler)
		return s.handler
	}, &conn)
	return s
}

// contextOf returns the context of the calls in a request.
func (s *session) contextOf(r *http.Request) context.Context {
	return transport.WithRequest(r.Context(), s.network, textproto.MIMEHeader(r.Header), s.id)
}

// checkBatch returns an error if the handler refuses a batch.
func (s *session) checkBatch(batch []jsonrpc.Message) error {
	h, ok := s.handler.(jsonrpc.SessionHandler)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "batches are not supported here: send one message at a time"}
	}
	return h.AcceptBatch(batch)
}

// serve receives the messages of a request and writes the response, until everything has
// been answered or the client disconnects, which cancels nothing.
func (s *session) serve(w http.ResponseWriter, r *http.Request, accepts wire.Accepts, st *stream, receive func()) {
	if s.hasEnded() {
		if s.sessions.ctx.Err() != nil {
			s.sessions.refuse(w, ErrShuttingDown)
		} else {
			s.sessions.refuse(w, errNoSession)
		}
		return
	}
	st.Peer = s.conn.PeerVia(st.Write)
	c := newResponse(s.sessions, w, accepts)
	st.attach(c)
	s.sessions.beginCall(s) // the call may outlast its request
	receive()
	c.wait(r.Context(), s)
	if st.detach(c) {
		return
	}
	if s.hasEnded() { // a missing session would mean that the client may repeat the call
		wire.WriteJSON(w, http.StatusOK, st.sessionEnd(), s.sessions.config.Limits.WriteTimeout)
		return
	}
	w.WriteHeader(http.StatusAccepted) // the call was canceled
}

var errSessionEnded = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the session ended during the call; the call may have been executed"}

func (s *session) hasEnded() bool { return s.conn.Input().Err() != nil }

// resumes reports whether a client of this session's version accepts events without data
// and resumes streams.
func (s *session) resumes() bool { return s.version >= mcp.Version20251125 }

// addStream makes an open stream resumable.
func (s *session) addStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, st)
}

func (s *session) removeStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.streams, st); i >= 0 {
		s.streams = slices.Delete(s.streams, i, i+1)
	}
}

// unsolicitedName returns the name of the stream of unsolicited messages, or "".
func (s *session) unsolicitedName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st == s.unsolicited {
			return st.name
		}
	}
	return ""
}

// streamKeys returns the names of the session's streams in the log.
func (s *session) streamKeys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, st := range s.streams {
		keys = append(keys, st.key)
	}
	return keys
}

func (s *session) streamKey(name string) string { return "stream/" + s.id + "/" + name }

func (s *session) findStream(name string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st.name == name {
			return st
		}
	}
	return nil
}

// apply passes a record to the handler, unless a newer one has been applied. s.applyMu is held.
func (s *session) apply(ctx context.Context, stored *state.Record[record]) error {
	if stored.Revision() <= s.applied {
		return nil
	}
	if s.stateful != nil {
		if err := s.stateful.SetState(ctx, stored.Value.State, s.unsolicitedName() != ""); err != nil {
			return err
		}
	}
	s.applied = stored.Revision()
	return nil
}

// clientListens tells the handler that the client listens at this replica.
func (s *session) clientListens(ctx context.Context, missed bool) {
	if s.stateful != nil {
		s.stateful.ClientListens(ctx, missed)
	}
}

// reload applies what other replicas have changed. The error is [errNoSession] if the session does not exist any more, or
// [errUnreadable].
func (s *session) reload(ctx context.Context) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.stale.Store(false) // later changes may not be in the record that is read now
	stored, err := s.sessions.load(ctx, s.id)
	if err != nil {
		return err
	}
	return s.apply(ctx, stored)
}

// refresh begins the time to live of the record again, and applies what other replicas have changed.
func (s *session) refresh(ctx context.Context) error {
	return s.save(ctx, func(state json.RawMessage) (json.RawMessage, error) { return state, nil })
}

// UpdateState implements [transport.StateStore].
func (s *session) UpdateState(ctx context.Context, change func(json.RawMessage) (json.RawMessage, error)) error {
	err := s.save(ctx, change)
	failure, _ := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		return nil
	case failure != nil && failure.Code == jsonrpc.Busy:
		return err
	case errors.Is(err, store.ErrTooLarge):
		return errTooMuchState
	case errors.Is(err, errNoSession), ctx.Err() != nil: // the client has ended the session
		return errNotStored
	}
	s.sessions.config.Logger.Error("streamable: storing a change of a session failed", "error", err)
	return errNotStored
}

var (
	errNotStored    = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the change could not be stored; try again later"}
	errTooMuchState = &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the subscriptions of the session are too large together: unsubscribe from some"}
)

// save changes the state in the record, whose time to live begins again, and applies it with what other replicas have changed.
func (s *session) save(ctx context.Context, change func(json.RawMessage) (json.RawMessage, error)) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	changed := false
	stored, err := s.sessions.records.Update(ctx, recordKey(s.id), func(stored *state.Record[record]) error {
		after, err := change(stored.Value.State)
		changed = !bytes.Equal(stored.Value.State, after)
		stored.Value.State, stored.Until = after, s.sessions.recordEnd(s.sessions.config.Limits.SessionTTL)
		return err
	})
	if err == nil {
		err = s.apply(ctx, stored)
	} else {
		err = s.sessions.errorOf(err)
	}
	if err != nil || !changed {
		return err
	}
	if err := s.sessions.replicas.publish(ctx, notice{Session: s.id}, nil); err != nil { // they apply the record when they refresh it
		s.sessions.config.Logger.Warn("streamable: other replicas were not notified of a change", "error", err)
	}
	return nil
}

func (s *session) holder() quota.Holder { return quota.HolderOf(s.principal, s.network) }

// close cancels the calls of the session and waits for them up to Options.Conn.Grace.
func (s *session) close() { s.conn.Close() }

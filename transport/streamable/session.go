package streamable

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A session is what a handshake opens: a handler and everything that runs for it in this replica.
// It has one stream for unsolicited messages and one for each call.
type session struct {
	endpoint    *Endpoint
	id          string
	principal   string
	version     mcp.Version
	handler     jsonrpc.Handler
	conn        *jsonrpc.Conn
	unsolicited *stream

	applyMu sync.Mutex  // held while the record or what follows from it changes
	stale   atomic.Bool // another replica has changed the record, and it will be reloaded

	mu        sync.Mutex
	applied   *state.Record[record]
	repeated  int                  // how often calls that another replica has served were repeated here
	adopted   time.Time            // when a subscription of another replica had effect here
	streams   []*stream            // those that a client can resume
	followers map[string]*follower // by stream

	// Guarded by sessions.mu.
	users int         // requests and calls in progress
	timer *time.Timer // of check
	used  bool        // since the record was refreshed
	until time.Time   // when the session ends if it is idle
	ended bool
}

func newSession(e *Endpoint, principal string) *session {
	s := &session{endpoint: e, principal: principal}
	s.unsolicited = &stream{session: s}
	conn := e.opts.Conn
	conn.Limiter = e.quota.Client(principal)
	if e.sessions.shared {
		conn.FirstID = firstQuestion(e.replicas.id)
	}
	s.conn = jsonrpc.NewConn(nil, func(c *jsonrpc.Conn) jsonrpc.Handler {
		s.unsolicited.Peer = c.PeerVia(s.unsolicited.Write)
		s.handler = e.server.Bind(transport.Link{Peer: s.unsolicited, Input: c.Input(), Go: c.Go, Principal: principal})
		return s.handler
	}, &conn)
	return s
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
func (s *session) serve(w http.ResponseWriter, r *http.Request, accepts acceptedTypes, st *stream, receive func()) {
	if s.hasEnded() {
		if s.endpoint.ctx.Err() != nil {
			httpguard.RefuseBusy(w, errShuttingDown.Error())
		} else {
			refuseSession(w)
		}
		return
	}
	st.Peer = s.conn.PeerVia(st.Write)
	c := newResponse(s.endpoint, w, accepts)
	st.attach(c)
	s.endpoint.sessions.beginCall(s) // the call may outlast its request
	receive()
	c.wait(r.Context(), s)
	if st.detach(c) {
		return
	}
	if s.hasEnded() { // a missing session would mean that the client may repeat the call
		refuseCall(w, http.StatusOK, &jsonrpc.Request{ID: st.call}, errSessionEnded)
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

// adopt repeats the calls that have led to a record, unless a newer one has been applied. done are
// those that this replica has served itself and that still have effect. The caller holds s.applyMu.
func (s *session) adopt(ctx context.Context, next *state.Record[record], done ...*jsonrpc.Request) error {
	s.mu.Lock()
	known := s.applied
	s.mu.Unlock()
	if !known.Precedes(next) {
		return nil
	}
	before, r := known.Value, &next.Value
	for _, req := range done {
		before.update(req)
	}
	requests, err := r.requestsFrom(&before)
	if err != nil {
		return err
	}
	s.repeat(ctx, requests)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	subscribed := slices.DeleteFunc(slices.Clone(r.Resources), func(uri string) bool { return slices.Contains(before.Resources, uri) })
	s.mu.Lock()
	next.Value.Handshake = nil // it does not change
	s.applied = next
	if len(requests) > 0 {
		s.repeated++
	}
	if len(subscribed) > 0 {
		s.adopted = time.Now()
	}
	s.mu.Unlock()
	// A change between the subscription at another replica and now has not been reported here. If the
	// client does not listen here, it is notified when it begins to.
	for _, uri := range subscribed {
		s.notifyUpdated(ctx, uri)
	}
	return nil
}

// repeatCount returns how often calls that another replica has served were repeated here.
func (s *session) repeatCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repeated
}

// repeat serves calls without a client. Their errors are ignored: a resource may have gone, which its
// subscriber need not know.
func (s *session) repeat(ctx context.Context, requests []*jsonrpc.Request) {
	for _, req := range requests {
		var reply jsonrpc.Reply
		_ = jsonrpc.Answer(ctx, s.handler, s.unsolicited, req, &reply)
	}
}

// undo reverses calls that have succeeded here and could not be stored. s.applyMu is held.
func (s *session) undo(calls []*jsonrpc.Request) {
	s.mu.Lock()
	before := s.applied.Value
	s.mu.Unlock()
	changed := before
	for _, req := range calls {
		changed.update(req)
	}
	if requests, err := before.requestsFrom(&changed); err == nil {
		s.repeat(s.conn.Input(), requests)
	}
}

// reload applies what other replicas have changed. It ends a session that no longer exists.
func (s *session) reload(ctx context.Context) error {
	err := s.reloadRecord(ctx)
	if errors.Is(err, errNoSession) {
		s.endpoint.sessions.discard(ctx, s, true)
	}
	return err
}

func (s *session) reloadRecord(ctx context.Context) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.stale.Store(false) // later changes may not be in the record that is read now
	stored, err := s.endpoint.sessions.load(ctx, s.id)
	if err != nil {
		return err
	}
	return s.adopt(ctx, stored)
}

// refresh begins the time to live of the record again, and applies what other replicas have changed.
func (s *session) refresh(ctx context.Context) error { return s.save(ctx, nil, 0) }

// save adds calls that have succeeded here to the record, for other replicas. If that fails, it
// reverses them. repeated is the repeatCount before the calls.
func (s *session) save(ctx context.Context, calls []*jsonrpc.Request, repeated int) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	stored, changed, err := s.endpoint.sessions.update(ctx, s.id, func(r *record) (changed bool) {
		for _, req := range calls {
			changed = r.update(req) || changed
		}
		return changed
	})
	if err != nil {
		s.undo(calls)
		return err
	}
	done := calls
	if s.repeatCount() != repeated { // an earlier call at another replica may have been repeated after these
		done = nil
	}
	if err := s.adopt(ctx, stored, done...); err != nil || !changed {
		return err
	}
	if err := s.endpoint.replicas.publish(ctx, notice{Session: s.id}, nil); err != nil { // they apply the record when they refresh it
		s.endpoint.opts.Logger.Warn("streamable: other replicas were not notified of a change", "error", err)
	}
	return nil
}

// close cancels the calls of the session and waits for them up to Options.Conn.Grace.
func (s *session) close() { s.conn.Close() }

package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A session is what a handshake opens: a handler and everything that runs for it. It has
// one stream for unsolicited messages and one for each call.
type session struct {
	endpoint    *Endpoint
	id          string
	sealed      *sealedSession // content of the id, nil if the id is random
	principal   string
	version     mcp.Version
	handler     jsonrpc.Handler
	running     *jsonrpc.Conn
	unsolicited *stream

	mu      sync.Mutex
	streams []*stream // those that a client can resume

	// Guarded by sessions.mu.
	users int // requests and calls in progress
	idle  *time.Timer
	until time.Time // when idle may end the session
	ended bool
}

func newSession(e *Endpoint, principal string) *session {
	s := &session{endpoint: e, principal: principal}
	s.unsolicited = &stream{session: s}
	conn := e.opts.Conn
	conn.Limiter = e.quota.Client(principal)
	s.running = jsonrpc.NewConn(nil, func(c *jsonrpc.Conn) jsonrpc.Handler {
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
// been answered or the client disconnects, which cancels nothing. id is that of the call,
// or zero for a batch.
func (s *session) serve(w http.ResponseWriter, r *http.Request, accepts acceptedTypes, charge *bufpool.Charge, id jsonrpc.ID, receive func(*stream)) {
	if s.hasEnded() {
		refuseSession(w, errNoSession)
		return
	}
	st := &stream{session: s, charge: charge}
	st.Peer = s.running.PeerVia(st.Write)
	c := newResponse(s.endpoint, w, accepts)
	st.attach(c)
	s.endpoint.sessions.beginCall(s) // the call may outlast its request
	receive(st)
	c.wait(r.Context(), s)
	if st.detach(c) {
		return
	}
	if s.hasEnded() { // a missing session would mean that the client may repeat the call
		refuseCall(w, http.StatusOK, &jsonrpc.Request{ID: id}, errSessionEnded)
		return
	}
	w.WriteHeader(http.StatusAccepted) // the call was canceled
}

var errSessionEnded = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the session ended during the call; the call may have been executed"}

func (s *session) hasEnded() bool { return s.running.Input().Err() != nil }

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

// close cancels the calls of the session and waits for them up to Options.Conn.Grace.
func (s *session) close() { s.running.Close() }

// sessions contains the open sessions of this process. A session of another principal is
// treated as unknown.
type sessions struct {
	opts   *Options
	sealer *sealer // nil if ids are random
	quota  *quota.Quota

	mu     sync.Mutex
	open   map[string]*session
	closed bool
	calls  int            // without a reply
	idle   chan struct{}  // closed when calls is 0; nil if nothing waits for that
	ending sync.WaitGroup // sessions whose end is in progress
}

var errNoSession = errors.New("the session does not exist")

func newSessions(opts *Options, q *quota.Quota) (*sessions, error) {
	t := &sessions{opts: opts, quota: q, open: make(map[string]*session)}
	if len(opts.SessionKeys) == 0 {
		return t, nil
	}
	var err error
	t.sealer, err = newSealer(opts)
	return t, err
}

// assignID gives a new session its id and opens it.
func (t *sessions) assignID(s *session, handshake *jsonrpc.Request) error {
	s.id = rand.Text()
	if t.sealer != nil {
		var err error
		if s.id, s.sealed, err = t.sealer.seal(s, handshake); err != nil {
			return err
		}
	}
	if !t.add(s, min(openingTTL, t.opts.Limits.SessionTTL)) {
		return errNoSession
	}
	return nil
}

// add opens a session. It returns false if a session with its id is open, or the endpoint
// is closed.
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

// find returns the open session with an id and enters it, or returns nil if the session
// belongs to another principal.
func (t *sessions) find(id, principal string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[id]
	if s == nil || s.principal != principal || s.sealed != nil && !time.Now().Before(s.sealed.Expires) {
		return nil
	}
	t.retain(s)
	return s
}

// beginCall keeps a session from being idle until endCall is called.
func (t *sessions) beginCall(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	t.retain(s)
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

func (t *sessions) retain(s *session) {
	s.users++
	s.idle.Stop()
}

func (t *sessions) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(s)
}

func (t *sessions) release(s *session) {
	if s.users--; s.users == 0 && !s.ended {
		s.until = time.Now().Add(t.opts.Limits.SessionTTL)
		s.idle.Reset(t.opts.Limits.SessionTTL)
	}
}

// expire ends an idle session.
func (t *sessions) expire(s *session) {
	if t.remove(s, true) {
		t.finish(context.Background(), s)
	}
}

// end ends a session for its client. Its id ends first, since it could restore the session.
func (t *sessions) end(ctx context.Context, s *session) error {
	if t.sealer != nil {
		if err := t.sealer.end(ctx, s.sealed); err != nil {
			return err
		}
	}
	t.discard(ctx, s)
	return nil
}

// discard ends a session in this process, unless it has ended.
func (t *sessions) discard(ctx context.Context, s *session) {
	if t.remove(s, false) {
		t.finish(ctx, s)
	}
}

// remove removes a session and reports whether it was open. The caller finishes it. With
// ifIdle, a session in use is kept.
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
		t.opts.Logger.Warn("streamable: deleting the events of a session failed", "error", err)
	}
	t.quota.Release(s.principal)
}

// close ends all sessions and refuses new ones.
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

// session returns the session with an id and enters it. It restores a session that is not
// open from its sealed id.
func (e *Endpoint) session(ctx context.Context, id, principal string) (*session, error) {
	if len(id) > maxSessionID {
		return nil, errNoSession
	}
	sealer := e.sessions.sealer
	s := e.sessions.find(id, principal)
	switch {
	case s == nil && sealer == nil:
		return nil, errNoSession
	case s == nil:
		var err error
		if s, err = e.restore(ctx, id, principal); err != nil {
			return nil, err
		}
	case sealer == nil || !sealer.shared:
		return s, nil
	}
	if err := sealer.check(ctx, s.sealed); err != nil { // another process or another request may have ended it
		e.sessions.leave(s)
		if errors.Is(err, errNoSession) {
			e.sessions.discard(ctx, s)
		}
		return nil, err
	}
	return s, nil
}

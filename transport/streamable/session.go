package streamable

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A session is what a handshake opens: a handler with all that runs for it. It has
// one stream of its own, for what belongs to no call, and one for each call.
type session struct {
	endpoint  *Endpoint
	id        string
	sealed    *sealedSession // what the id tells, nil if it is random
	principal string
	version   mcp.Version
	handler   jsonrpc.Handler
	running   *jsonrpc.Dispatcher
	news      *stream
	own       *jsonrpc.Route // by way of news

	mu      sync.Mutex
	streams []*stream // those that a client may come back for

	// Guarded by the table of sessions.
	users int // requests and calls that run
	idle  *time.Timer
	until time.Time // what idle waits for
	ended bool
}

func newSession(e *Endpoint, principal string) *session {
	s := &session{endpoint: e, principal: principal}
	s.news = &stream{session: s}
	s.running = jsonrpc.NewDispatcher(func(d *jsonrpc.Dispatcher) jsonrpc.Handler {
		s.own = d.Route(context.Background(), s.news)
		s.handler = e.server.Bind(transport.Link{Peer: s.own, Input: d.Input(), Go: d.Go, Principal: principal})
		return s.handler
	}, &e.opts.Conn)
	return s
}

// accepts says whether these messages may come as one.
func (s *session) accepts(batch []jsonrpc.Message) error {
	h, ok := s.handler.(jsonrpc.BatchHandler)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "batches are not supported here: send one message at a time"}
	}
	return h.AcceptBatch(batch)
}

// serve has what came with a request dispatched, and carries its stream until all
// has been answered or the client hangs up, which cancels nothing. The id is that of
// the call, if it is only one.
func (s *session) serve(w http.ResponseWriter, r *http.Request, takes accepted, id jsonrpc.ID, dispatch func(*jsonrpc.Route)) {
	if s.hasEnded() {
		refuseSession(w, errNoSession)
		return
	}
	st := &stream{session: s}
	c := newCarrier(s.endpoint, w, takes)
	st.carry(c)
	s.endpoint.sessions.enter(s) // the call, which may outlast its request
	dispatch(s.running.Route(r.Context(), st))
	c.wait(r.Context(), s)
	if st.drop(c) {
		return
	}
	if s.hasEnded() { // that there is no session would mean: make the call again
		refuseCall(w, http.StatusOK, &jsonrpc.Request{ID: id}, errEndedMeanwhile)
		return
	}
	w.WriteHeader(http.StatusAccepted) // the call was cancelled
}

var errEndedMeanwhile = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the session has ended while the call ran: it may have been executed"}

func (s *session) hasEnded() bool { return s.running.Input().Err() != nil }

// primes says whether a client of this session understands events without data and
// comes back for the rest of a stream.
func (s *session) primes() bool { return s.version >= mcp.Version20251125 }

// remember keeps an open stream for a client that comes back.
func (s *session) remember(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, st)
}

func (s *session) forget(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.streams, st); i >= 0 {
		s.streams = slices.Delete(s.streams, i, i+1)
	}
}

func (s *session) streamNamed(name string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st.name == name {
			return st
		}
	}
	return nil
}

// close ends all that runs for the session, and returns when it has, within a bound.
func (s *session) close() { s.running.Close() }

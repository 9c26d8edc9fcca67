package session

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// Trace calls Trace of the options, if it is set, for a message that belongs to no session, and returns the identifier of the
// request.
func Trace(opts *jsonrpc.Options, body []byte) (conn string) {
	if opts.Trace != nil {
		conn = rand.Text()
		opts.Trace(conn, false, body)
	}
	return conn
}

// Receive accepts one message of a session, which was decoded from body. See MCP 2025-11-25, basic/transports, section
// Streamable HTTP.
func (t *Sessions) Receive(w http.ResponseWriter, r *http.Request, accepts wire.Accepts, charge *bufpool.Charge, body []byte, msg jsonrpc.Message) {
	req, isRequest := msg.(*jsonrpc.Request)
	if isRequest && req.Method == mcp.MethodInitialize && !req.IsNotification() {
		t.initialize(w, r, accepts, body, req)
		return
	}
	s := t.enter(w, r)
	if s == nil {
		Trace(&t.config.Conn, body)
		return
	}
	defer t.leave(s)
	s.conn.Trace(false, body)
	if !isRequest || req.IsNotification() {
		elsewhere, err := t.replicas.forward(r.Context(), s, msg)
		if err != nil {
			t.refuse(w, err)
			return
		}
		if !elsewhere {
			s.conn.ReceiveMessage(context.Background(), s.unsolicited, answered{s.unsolicited, charge}, msg)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	st := &stream{session: s, charge: charge, call: req.ID}
	s.serve(w, r, accepts, st, func() { s.conn.ReceiveMessage(s.contextOf(r), st, st, msg) })
}

// ReceiveBatch accepts an array of messages, which only sessions of 2025-03-26 may send. calls says whether any of them, or a
// malformed one, is answered.
func (t *Sessions) ReceiveBatch(w http.ResponseWriter, r *http.Request, accepts wire.Accepts, charge *bufpool.Charge, body []byte, msgs []jsonrpc.Message, calls bool) {
	s := t.enter(w, r)
	if s == nil {
		return
	}
	defer t.leave(s)
	if err := s.checkBatch(msgs); err != nil {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, wire.Error(err).Message)
		return
	}
	st := &stream{session: s, charge: charge}
	for _, msg := range msgs {
		if req, ok := msg.(*jsonrpc.Request); ok && !req.IsNotification() {
			st.batch = append(st.batch, req.ID)
		}
		if _, err := t.replicas.forward(r.Context(), s, msg); err != nil {
			t.refuse(w, err)
			return
		}
	}
	if !calls {
		s.conn.Receive(context.Background(), s.unsolicited, answered{s.unsolicited, charge}, body)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serve(w, r, accepts, st, func() { s.conn.Receive(s.contextOf(r), st, st, body) })
}

// refuse answers a request that has failed.
func (t *Sessions) refuse(w http.ResponseWriter, err error) {
	busy, isBusy := errors.AsType[busyError](err)
	failure, _ := errors.AsType[*jsonrpc.Error](err)
	switch {
	case isBusy:
		httpguard.RefuseBusy(w, busy.Error())
	case failure != nil && failure.Code == jsonrpc.Busy: // the handler has no room for the session
		httpguard.RefuseBusy(w, failure.Message)
	case errors.Is(err, errNoSession), errors.Is(err, errUnreadable):
		httpguard.Refuse(w, http.StatusNotFound, jsonrpc.InvalidRequest, "the session does not exist; begin a new one with initialize")
	case errors.Is(err, errAskerEnded):
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, err.Error())
	case errors.Is(err, store.ErrTooLarge):
		httpguard.Refuse(w, http.StatusRequestEntityTooLarge, jsonrpc.InvalidRequest, "the message is too large to be passed to another replica")
	default:
		if !errors.Is(err, context.Canceled) { // the client has disconnected
			t.config.Logger.Warn("streamable: the store of sessions has failed", "error", err)
		}
		httpguard.RefuseBusy(w, "busy: the store of sessions cannot be used now")
	}
}

// initialize opens a session if the server accepts the handshake.
func (t *Sessions) initialize(w http.ResponseWriter, r *http.Request, accepts wire.Accepts, body []byte, req *jsonrpc.Request) {
	var reply jsonrpc.Reply
	var refused error
	begun := false
	s, err := t.begin(rand.Text(), transport.Principal(r.Context()), t.network(r), min(openingTTL, t.config.Limits.SessionTTL), func(s *session) error {
		begun = true
		s.conn.Trace(false, body)
		if refused = jsonrpc.Answer(s.contextOf(r), s.handler, s.unsolicited, req, &reply); refused == nil {
			s.version, refused = negotiated(reply.Buf)
		}
		if refused != nil {
			return refused
		}
		return s.create(r.Context())
	})
	if !begun {
		Trace(&t.config.Conn, body)
	}
	switch {
	case refused != nil:
		status, refusal := http.StatusOK, wire.Error(refused)
		if refusal.Code == jsonrpc.Busy {
			httpguard.SetRetryAfter(w)
			status = http.StatusServiceUnavailable
		}
		wire.RefuseCall(w, status, req, refusal)
		return
	case err != nil:
		t.refuse(w, err)
		return
	}
	w.Header().Set(wire.HeaderSession, s.id)
	s.conn.Trace(true, reply.Buf)
	c := newResponse(t, w, accepts)
	if accepts.JSON {
		c.answer(reply.Buf)
		return
	}
	c.open()
	_ = c.send(sse.Event{Data: jsonscan.Line(reply.Buf)}) // a client that has disconnected begins another session
	c.stop()
}

// negotiated returns the version of a session from the answer to the handshake.
func negotiated(answer []byte) (mcp.Version, error) {
	msg, err := jsonrpc.Decode(answer)
	if resp, ok := msg.(*jsonrpc.Response); err == nil && ok {
		if version := resp.Member("protocolVersion"); jsonscan.KindOf(version) == jsonscan.String {
			return mcp.Version(jsonscan.Unquote(version)), nil
		}
	}
	return "", errors.New("the answer to initialize has no protocolVersion")
}

func (t *Sessions) network(r *http.Request) string {
	return httpguard.Network(r, t.config.TrustedProxies)
}

// enter returns the session of a request, or answers the request and returns nil. The
// caller must leave the session.
func (t *Sessions) enter(w http.ResponseWriter, r *http.Request) *session {
	if lines := r.Header[wire.HeaderVersion]; len(lines) > 1 || len(lines) == 1 && !wire.HasSessions(lines[0]) {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the header MCP-Protocol-Version does not name a version that has sessions")
		return nil
	}
	ids := r.Header[wire.HeaderSession]
	if len(ids) != 1 || ids[0] == "" {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest,
			"expected either one header Mcp-Session-Id, from the answer to initialize, or a request whose params._meta declares its version")
		return nil
	}
	s, err := t.session(r, ids[0])
	if err != nil {
		t.refuse(w, err)
		return nil
	}
	return s
}

// Delete ends a session.
func (t *Sessions) Delete(w http.ResponseWriter, r *http.Request) {
	s := t.enter(w, r)
	if s == nil {
		return
	}
	t.leave(s)
	if err := t.end(r.Context(), s); err != nil {
		t.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Get opens the stream of a session for unsolicited messages, or resumes a stream. See MCP
// 2025-11-25, basic/transports, sections Listening for Messages from the Server and
// Resumability and Redelivery.
func (t *Sessions) Get(w http.ResponseWriter, r *http.Request) {
	accepts := wire.AcceptedBy(r)
	if !accepts.Events {
		httpguard.Refuse(w, http.StatusNotAcceptable, jsonrpc.InvalidRequest, "Accept must list text/event-stream")
		return
	}
	s := t.enter(w, r)
	if s == nil {
		return
	}
	defer t.leave(s)
	c := newResponse(t, w, accepts)
	switch ids := r.Header[wire.HeaderLastEventID]; {
	case len(ids) > 1:
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the header Last-Event-ID is given more than once")
	case len(ids) == 1 && t.resume(w, r, s, c, ids[0]):
	default:
		s.unsolicited.listen(c)
		defer s.unsolicited.detach(c)
		if err := t.replicas.publish(r.Context(), notice{Session: s.id, Listening: true, Stream: s.unsolicitedName()}, nil); err != nil && r.Context().Err() == nil {
			t.config.Logger.Warn("streamable: other replicas were not notified of a stream", "error", err)
		}
		s.clientListens(r.Context(), len(ids) == 1) // it could not be resumed
		c.wait(r.Context(), s)
	}
}

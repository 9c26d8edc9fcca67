package streamable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// legacy accepts one message of a session. See MCP 2025-11-25, basic/transports, section
// Streamable HTTP.
func (e *Endpoint) legacy(w http.ResponseWriter, r *http.Request, accepts acceptedTypes, charge *bufpool.Charge, msg jsonrpc.Message) {
	req, isRequest := msg.(*jsonrpc.Request)
	if isRequest && req.Method == mcp.MethodInitialize && !req.IsNotification() {
		e.initialize(w, r, accepts, req)
		return
	}
	s := e.enter(w, r)
	if s == nil {
		return
	}
	defer e.sessions.leave(s)
	if !isRequest || req.IsNotification() {
		elsewhere, err := e.replicas.forward(r.Context(), s, msg)
		if err != nil {
			e.refuseForwarding(w, err)
			return
		}
		if !elsewhere {
			s.conn.ReceiveMessage(context.Background(), s.unsolicited, answered{s.unsolicited, charge}, msg)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	st := &stream{session: s, charge: charge, call: req.ID}
	s.serve(w, r, accepts, st, func() { s.conn.ReceiveMessage(r.Context(), st, st, msg) })
}

// batch accepts an array of messages, which only sessions of 2025-03-26 may send.
func (e *Endpoint) batch(w http.ResponseWriter, r *http.Request, accepts acceptedTypes, charge *bufpool.Charge, body []byte, items []json.RawMessage) {
	msgs, calls := make([]jsonrpc.Message, 0, len(items)), false
	for _, item := range items {
		msg, err := jsonrpc.Decode(item)
		if err != nil {
			calls = true // a malformed message is answered too
			continue
		}
		req, ok := msg.(*jsonrpc.Request)
		calls = calls || ok && !req.IsNotification()
		if ok && req.Member("_meta", mcp.MetaProtocolVersion) != nil {
			httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "a request that declares its version must not be part of a batch")
			return
		}
		msgs = append(msgs, msg)
	}
	if !admitAll(w, r, msgs) {
		return
	}
	s := e.enter(w, r)
	if s == nil {
		return
	}
	defer e.sessions.leave(s)
	if err := s.checkBatch(msgs); err != nil {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, asError(err).Message)
		return
	}
	st := &stream{session: s, charge: charge}
	for _, msg := range msgs {
		if _, err := e.replicas.forward(r.Context(), s, msg); err != nil {
			e.refuseForwarding(w, err)
			return
		}
	}
	if !calls {
		s.conn.Receive(context.Background(), s.unsolicited, answered{s.unsolicited, charge}, body)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serve(w, r, accepts, st, func() { s.conn.Receive(r.Context(), st, st, body) })
}

// refuseForwarding answers a request with a message that other replicas have not received.
func (e *Endpoint) refuseForwarding(w http.ResponseWriter, err error) {
	switch busy, ok := errors.AsType[busyError](err); {
	case ok:
		httpguard.RefuseBusy(w, busy.Error())
	case errors.Is(err, errAskerEnded):
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, err.Error())
	case errors.Is(err, store.ErrTooLarge):
		httpguard.Refuse(w, http.StatusRequestEntityTooLarge, jsonrpc.InvalidRequest, "the message is too large to be passed to another replica")
	default:
		e.refuseUnstored(w, err)
	}
}

// refuseUnstored answers a request that needs the store, which has failed.
func (e *Endpoint) refuseUnstored(w http.ResponseWriter, err error) {
	if !errors.Is(err, context.Canceled) { // the client has disconnected
		e.opts.Logger.Warn("streamable: the store of sessions has failed", "error", err)
	}
	httpguard.RefuseBusy(w, "busy: the store of sessions cannot be used now")
}

// initialize opens a session if the server accepts the handshake.
func (e *Endpoint) initialize(w http.ResponseWriter, r *http.Request, accepts acceptedTypes, req *jsonrpc.Request) {
	if err := e.replicas.start(); err != nil {
		e.refuseUnstored(w, err)
		return
	}
	principal := transport.Principal(r.Context())
	if err := e.sessions.quota.Acquire(principal); err != nil {
		httpguard.RefuseBusy(w, err.Error())
		return
	}
	s := newSession(e, principal)
	s.id = rand.Text()
	abandon := func() {
		e.sessions.quota.Release(principal)
		s.close()
	}
	var reply jsonrpc.Reply
	err := jsonrpc.Answer(r.Context(), s.handler, s.unsolicited, req, &reply)
	if err == nil {
		s.version, err = negotiated(reply.Buf)
	}
	if err != nil {
		abandon()
		refuseCall(w, http.StatusOK, req, asError(err))
		return
	}
	if err := s.create(r.Context()); err != nil {
		abandon()
		e.refuseUnstored(w, err)
		return
	}
	if !e.sessions.add(s, min(openingTTL, e.opts.Limits.SessionTTL)) {
		abandon()
		httpguard.RefuseBusy(w, errShuttingDown.Error())
		return
	}
	w.Header().Set(headerSession, s.id)
	x := callPeer{endpoint: e, w: w, accepts: accepts}
	x.finish(http.StatusOK, reply.Buf)
}

// negotiated returns the version of a session from the answer to the handshake.
func negotiated(answer []byte) (mcp.Version, error) {
	msg, err := jsonrpc.Decode(answer)
	if err != nil {
		return "", err
	}
	resp, ok := msg.(*jsonrpc.Response)
	if !ok || resp.Error != nil {
		return "", errors.New("the answer to initialize is no result")
	}
	version := resp.Member("protocolVersion")
	if jsonscan.KindOf(version) != jsonscan.String {
		return "", errors.New("the result of initialize has no protocolVersion")
	}
	return mcp.Version(jsonscan.Unquote(version)), nil
}

// enter returns the session of a request, or answers the request and returns nil. The
// caller must leave the session.
func (e *Endpoint) enter(w http.ResponseWriter, r *http.Request) *session {
	if lines := r.Header[headerVersion]; len(lines) > 1 || len(lines) == 1 && !isLegacy(lines[0]) {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the header MCP-Protocol-Version does not name a version that has sessions")
		return nil
	}
	ids := r.Header[headerSession]
	if len(ids) != 1 || ids[0] == "" {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest,
			"expected either one header Mcp-Session-Id, from the answer to initialize, or a request whose params._meta declares its version")
		return nil
	}
	s, err := e.session(r.Context(), ids[0], transport.Principal(r.Context()))
	if err != nil {
		if busy, ok := errors.AsType[busyError](err); ok {
			httpguard.RefuseBusy(w, busy.Error())
		} else if errors.Is(err, errNoSession) {
			refuseSession(w)
		} else {
			e.refuseUnstored(w, err)
		}
		return nil
	}
	return s
}

// refuseSession answers a request whose session does not exist.
func refuseSession(w http.ResponseWriter) {
	httpguard.Refuse(w, http.StatusNotFound, jsonrpc.InvalidRequest, "the session does not exist; begin a new one with initialize")
}

// delete ends a session.
func (e *Endpoint) delete(w http.ResponseWriter, r *http.Request) {
	s := e.enter(w, r)
	if s == nil {
		return
	}
	e.sessions.leave(s)
	if err := e.sessions.end(r.Context(), s); err != nil {
		e.refuseUnstored(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// get opens the stream of a session for unsolicited messages, or resumes a stream. See MCP
// 2025-11-25, basic/transports, sections Listening for Messages from the Server and
// Resumability and Redelivery.
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request) {
	accepts := acceptedBy(r)
	if !accepts.events {
		httpguard.Refuse(w, http.StatusNotAcceptable, jsonrpc.InvalidRequest, "Accept must list text/event-stream")
		return
	}
	s := e.enter(w, r)
	if s == nil {
		return
	}
	defer e.sessions.leave(s)
	c := newResponse(e, w, accepts)
	switch ids := r.Header[headerLastEventID]; {
	case len(ids) > 1:
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the header Last-Event-ID is given more than once")
	case len(ids) == 1 && e.resume(w, r, s, c, ids[0]):
	case !s.unsolicited.attachFirst(c):
		httpguard.Refuse(w, http.StatusConflict, jsonrpc.InvalidRequest, "this session has such a stream already")
	default:
		defer s.unsolicited.detach(c)
		if err := e.replicas.publish(r.Context(), notice{Session: s.id, Listening: true, Stream: s.unsolicitedName()}, nil); err != nil && r.Context().Err() == nil {
			e.opts.Logger.Warn("streamable: other replicas were not notified of a stream", "error", err)
		}
		s.clientListens(r.Context(), len(ids) == 1) // it could not be resumed
		c.wait(r.Context(), s)
	}
}

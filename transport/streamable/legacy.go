package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
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
		s.running.ReceiveMessage(context.Background(), s.unsolicited, answered{s.unsolicited, charge}, msg)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serve(w, r, accepts, charge, req.ID, func(st *stream) { s.running.ReceiveMessage(r.Context(), st, st, msg) })
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
	if !calls {
		s.running.Receive(context.Background(), s.unsolicited, answered{s.unsolicited, charge}, body)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serve(w, r, accepts, charge, jsonrpc.ID{}, func(st *stream) { s.running.Receive(r.Context(), st, st, body) })
}

// initialize opens a session if the server accepts the handshake.
func (e *Endpoint) initialize(w http.ResponseWriter, r *http.Request, accepts acceptedTypes, req *jsonrpc.Request) {
	principal := transport.Principal(r.Context())
	if err := e.sessions.quota.Acquire(principal); err != nil {
		httpguard.RefuseBusy(w, err.Error())
		return
	}
	s := newSession(e, principal)
	var reply jsonrpc.Reply
	err := jsonrpc.Answer(r.Context(), s.handler, s.unsolicited, req, &reply)
	if err == nil {
		s.version, err = negotiated(reply.Buf)
	}
	if err == nil {
		err = e.sessions.assignID(s, req)
	}
	if err != nil {
		e.sessions.quota.Release(principal)
		s.close()
	}
	switch {
	case errors.Is(err, errNoSession):
		httpguard.RefuseBusy(w, "the server is shutting down")
		return
	case err != nil:
		refuseCall(w, http.StatusOK, req, asError(err))
		return
	}
	w.Header().Set(headerSession, s.id)
	x := callPeer{endpoint: e, w: w, accepts: accepts}
	x.finish(http.StatusOK, reply.Buf)
}

// negotiated returns the version in the answer to a handshake.
func negotiated(answer []byte) (mcp.Version, error) {
	msg, err := jsonrpc.Decode(answer)
	if err != nil {
		return "", err
	}
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error"}
	}
	version := resp.Member("protocolVersion")
	if jsonscan.KindOf(version) != jsonscan.String {
		return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error"}
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
		if !errors.Is(err, errNoSession) {
			e.opts.Logger.Warn("streamable: restoring a session failed", "error", err)
		}
		refuseSession(w, err)
		return nil
	}
	return s
}

// refuseSession answers a request whose session does not exist or cannot be restored.
func refuseSession(w http.ResponseWriter, err error) {
	if errors.Is(err, errNoSession) {
		httpguard.Refuse(w, http.StatusNotFound, jsonrpc.InvalidRequest, "the session does not exist; begin a new one with initialize")
		return
	}
	httpguard.RefuseBusy(w, "busy: the session cannot be restored now")
}

// delete ends a session.
func (e *Endpoint) delete(w http.ResponseWriter, r *http.Request) {
	s := e.enter(w, r)
	if s == nil {
		return
	}
	e.sessions.leave(s)
	if err := e.sessions.end(r.Context(), s); err != nil {
		e.opts.Logger.Error("streamable: recording the end of a session failed", "error", err)
		httpguard.Refuse(w, http.StatusInternalServerError, jsonrpc.InternalError, "the session could not be ended")
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
		c.wait(r.Context(), s)
	}
}

// resume resumes an open stream, or replays the rest of a stream that has ended. If the events of
// a call's stream are not available, it answers the request with an error, since the response to the
// call will not come. Otherwise it returns false if it cannot resume: the client gets new events.
func (e *Endpoint) resume(w http.ResponseWriter, r *http.Request, s *session, c *response, lastEvent string) bool {
	name, number, ok := parseEventID(lastEvent)
	if !ok {
		return false
	}
	st := s.findStream(name)
	var err error
	if st != nil {
		err = st.resume(r.Context(), c, number)
	} else {
		err = e.resumeEnded(r.Context(), &stream{session: s, name: name}, c, number)
	}
	switch {
	case err != nil && errors.Is(err, ErrPurged) && !isCallStream(name):
		return false
	case err != nil:
		e.refusePurged(w, err)
	case st != nil:
		defer st.detach(c)
		c.wait(r.Context(), s)
	}
	return true
}

// resumeEnded replays the rest of a stream that has ended, or that another process has.
func (e *Endpoint) resumeEnded(ctx context.Context, st *stream, c *response, after int64) error {
	missed, err := e.opts.Events.After(ctx, st.id(), after)
	if err != nil {
		return err
	}
	c.open()
	c.replay(st, missed)
	c.stop()
	return nil
}

func (e *Endpoint) refusePurged(w http.ResponseWriter, err error) {
	if !errors.Is(err, ErrPurged) {
		e.opts.Logger.Error("streamable: reading stored events failed", "error", err)
	}
	refuseResumption(w)
}

func refuseResumption(w http.ResponseWriter) {
	httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest,
		"the events after Last-Event-ID are not available")
}

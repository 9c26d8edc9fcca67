package streamable

import (
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// The versions with sessions: MCP 2025-11-25, basic/transports, "Streamable HTTP".

// legacy takes one message of a session.
func (e *Endpoint) legacy(w http.ResponseWriter, r *http.Request, takes accepted, msg jsonrpc.Message) {
	req, isRequest := msg.(*jsonrpc.Request)
	if isRequest && req.Method == mcp.MethodInitialize && !req.IsNotification() {
		e.initialize(w, r, takes, req)
		return
	}
	s := e.enter(w, r)
	if s == nil {
		return
	}
	defer e.sessions.leave(s)
	if !isRequest || req.IsNotification() {
		s.own.Dispatch(msg)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serve(w, r, takes, req.ID, func(route *jsonrpc.Route) { route.Dispatch(msg) })
}

// batch takes an array of messages, which only sessions of 2025-03-26 may send.
func (e *Endpoint) batch(w http.ResponseWriter, r *http.Request, takes accepted, body []byte) {
	items, err := jsonrpc.SplitBatch(body, e.opts.Conn.MaxBatch)
	if err != nil {
		refuseMalformed(w, err)
		return
	}
	msgs, calls := make([]jsonrpc.Message, 0, len(items)), false
	for _, item := range items {
		msg, err := jsonrpc.Decode(item)
		if err != nil {
			calls = true // it is answered like one
			continue
		}
		req, ok := msg.(*jsonrpc.Request)
		calls = calls || ok && !req.IsNotification()
		if ok && req.Member("_meta", mcp.MetaProtocolVersion) != nil {
			edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "a request that carries its version must not be part of a batch")
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
	if err := s.accepts(msgs); err != nil {
		edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, asError(err).Message)
		return
	}
	if !calls {
		s.own.Receive(body)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serve(w, r, takes, jsonrpc.ID{}, func(route *jsonrpc.Route) { route.Receive(body) })
}

// initialize opens a session, if the server takes the handshake.
func (e *Endpoint) initialize(w http.ResponseWriter, r *http.Request, takes accepted, req *jsonrpc.Request) {
	principal := transport.Principal(r.Context())
	if err := e.sessions.seats.Take(principal); err != nil {
		refuseBusy(w, err.Error())
		return
	}
	s := newSession(e, principal)
	var reply jsonrpc.Reply
	err := jsonrpc.Answer(r.Context(), s.handler, s.own, req, &reply)
	if err == nil {
		s.version, err = negotiated(reply.Buf)
	}
	if err == nil {
		err = e.sessions.admit(s, req)
	}
	if err != nil {
		e.sessions.seats.Leave(principal)
		s.close()
	}
	switch {
	case errors.Is(err, errNoSession):
		refuseBusy(w, "the server is shutting down")
		return
	case err != nil:
		refuseCall(w, http.StatusOK, req, asError(err))
		return
	}
	w.Header().Set(headerSession, s.id)
	x := exchange{endpoint: e, w: w, takes: takes}
	x.finish(http.StatusOK, reply.Buf)
}

// negotiated reads the version from the answer to a handshake.
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

// enter finds the session of a request; without one, the request has been
// answered. Who enters must leave.
func (e *Endpoint) enter(w http.ResponseWriter, r *http.Request) *session {
	if lines := r.Header[headerVersion]; len(lines) > 1 || len(lines) == 1 && !isLegacy(lines[0]) {
		edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the header MCP-Protocol-Version does not name a version that has sessions")
		return nil
	}
	ids := r.Header[headerSession]
	if len(ids) != 1 || ids[0] == "" {
		edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest,
			"expected either one header Mcp-Session-Id, from the answer to initialize, or a request whose params._meta says which version it is of")
		return nil
	}
	s, err := e.session(r.Context(), ids[0], transport.Principal(r.Context()))
	if err != nil {
		if !errors.Is(err, errNoSession) {
			e.opts.Logger.Warn("streamable: a session could not be restored", "error", err)
		}
		refuseSession(w, err)
		return nil
	}
	return s
}

// refuseSession answers a request whose session is not there, or not to be had.
func refuseSession(w http.ResponseWriter, err error) {
	if errors.Is(err, errNoSession) {
		edge.Refuse(w, http.StatusNotFound, jsonrpc.InvalidRequest, "there is no such session: begin anew with initialize")
		return
	}
	refuseBusy(w, "there is no room for the session now")
}

// delete ends a session.
func (e *Endpoint) delete(w http.ResponseWriter, r *http.Request) {
	s := e.enter(w, r)
	if s == nil {
		return
	}
	e.sessions.leave(s)
	if err := e.sessions.end(r.Context(), s); err != nil {
		e.opts.Logger.Error("streamable: a session could not be ended everywhere", "error", err)
		edge.Refuse(w, http.StatusInternalServerError, jsonrpc.InternalError, "the session could not be ended")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

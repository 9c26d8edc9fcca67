package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// An Endpoint is a server at one URL. It is an http.Handler; its methods may be
// called concurrently.
type Endpoint struct {
	server   transport.Binder
	opts     Options
	guard    *edge.Guard
	modern   jsonrpc.Handler // of all requests that need no session
	mirrored mirrored
	sessions *sessions
	listens  atomic.Int64
	replies  buffer.Pool

	ctx     context.Context // the endpoint's life
	cancel  context.CancelCauseFunc
	started sync.WaitGroup // what the modern handler has started
}

// Handler serves a server over HTTP. It panics when an option is malformed: a
// host, an origin, a key that is too short.
//
// The server may have a method InputSchema(tool string) json.RawMessage, as
// server.Server does. Then calls are refused whose Mcp-Param headers do not say the
// same as their arguments.
func Handler(server transport.Binder, opts *Options) *Endpoint {
	e := &Endpoint{server: server, opts: opts.withDefaults()}
	var err error
	if e.guard, err = edge.NewGuard(e.opts.Hosts, e.opts.Origins); err != nil {
		panic("streamable.Handler: " + err.Error())
	}
	if e.sessions, err = newSessions(&e.opts); err != nil {
		panic("streamable.Handler: " + err.Error())
	}
	e.mirrored.server, _ = server.(schemas)
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.modern = server.Bind(transport.Link{
		Input: e.ctx, Shared: true,
		Go: func(fn func(context.Context)) { e.started.Go(func() { fn(e.ctx) }) },
	})
	return e
}

// Close ends all sessions and subscriptions, refuses new requests, and returns,
// within a bound, when nothing of the sessions runs any more. Calls that need no
// session go on: waiting for them is up to http.Server.Shutdown. It may be called
// more than once.
func (e *Endpoint) Close() error {
	e.cancel(jsonrpc.ErrClosed)
	e.sessions.close()
	e.started.Wait()
	return nil
}

// ServeHTTP answers one request. A call that [transport.Admit] refuses for want of a
// scope is answered with status 403 and a challenge.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.guard.Admit(w, r, http.MethodPost, http.MethodGet, http.MethodDelete) {
		return
	}
	if e.ctx.Err() != nil {
		refuseBusy(w, "the server is shutting down")
		return
	}
	w = edge.Copies(w, r)
	switch r.Method {
	case http.MethodPost:
		e.post(w, r)
	case http.MethodGet:
		e.get(w, r)
	case http.MethodDelete:
		e.delete(w, r)
	}
}

// post takes a message and finds out which era it is of. The order of the checks
// can be observed: MCP 2026-07-28, basic/transports/streamable-http and
// basic/versioning.
func (e *Endpoint) post(w http.ResponseWriter, r *http.Request) {
	takes := acceptedBy(r)
	if !takes.json && !takes.events {
		edge.Refuse(w, http.StatusNotAcceptable, jsonrpc.InvalidRequest, "Accept must list application/json and text/event-stream")
		return
	}
	body, ok := edge.ReadJSON(w, r, e.opts.MaxMessage)
	if !ok {
		return
	}
	if jsonrpc.IsBatch(body) {
		e.batch(w, r, takes, body)
		return
	}
	if e.opts.Conn.Trace != nil {
		e.opts.Conn.Trace(false, body)
	}
	msg, err := jsonrpc.Decode(body)
	if err != nil {
		refuseMalformed(w, err)
		return
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		e.legacy(w, r, takes, msg)
		return
	}
	if !req.IsNotification() && !admit(w, r, req) {
		return
	}
	switch claim := req.Member("_meta", mcp.MetaProtocolVersion); {
	case claim != nil && req.IsNotification():
		w.WriteHeader(http.StatusAccepted) // none is defined
	case claim != nil:
		e.answer(w, r, takes, req, claim)
	case !namesModern(r.Header):
		e.legacy(w, r, takes, req)
	case req.IsNotification():
		w.WriteHeader(http.StatusAccepted)
	default:
		refuseClaimless(w, req)
	}
}

// refuseClaimless answers a call whose header names a version without sessions, and
// whose body names none.
func refuseClaimless(w http.ResponseWriter, req *jsonrpc.Request) {
	refusal := &jsonrpc.Error{
		Code: jsonrpc.InvalidParams,
		Message: fmt.Sprintf("the header %s names a version in which params._meta must have %q and %q",
			headerVersion, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities),
	}
	if req.Method == mcp.MethodInitialize {
		refusal = mismatch(fmt.Sprintf("the header %s names a version that has no initialize", headerVersion))
	}
	refuseCall(w, http.StatusBadRequest, req, refusal)
}

// refuseMalformed answers what is no message, with the id if it could be read.
func refuseMalformed(w http.ResponseWriter, err error) {
	bad, ok := errors.AsType[*jsonrpc.DecodeError](err)
	if !ok {
		bad = &jsonrpc.DecodeError{Err: &jsonrpc.Error{Code: jsonrpc.ParseError, Message: err.Error()}}
	}
	refuseCall(w, http.StatusBadRequest, &jsonrpc.Request{ID: bad.ID}, bad.Err)
}

// refuseCall answers a call before anything has been done for it.
func refuseCall(w http.ResponseWriter, status int, req *jsonrpc.Request, e *jsonrpc.Error) {
	body, err := jsonrpc.Append(nil, &jsonrpc.Response{ID: req.ID, Error: e})
	if err != nil { // an id too long to repeat has been refused before
		edge.Refuse(w, status, e.Code, e.Message)
		return
	}
	writeJSON(w, status, body, DefaultWriteTimeout)
}

// refuseBusy answers a request that there is no room for now.
func refuseBusy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "5")
	edge.Refuse(w, http.StatusServiceUnavailable, jsonrpc.Busy, message)
}

package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/session"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// A front is what the endpoints of several servers have in common; see [Select].
type front struct {
	opts     Options
	guard    *httpguard.Guard
	warnings *httpguard.Warnings
	quota    *quota.Endpoint
	buffers  bufpool.Pool
}

// An Endpoint serves an MCP server at one URL. Make one with [Handler]. Its methods may be called concurrently.
type Endpoint struct {
	*front
	server       transport.Binder
	modern       jsonrpc.Handler // of requests without a session
	headerParams headerParams
	sessions     *session.Sessions

	ctx        context.Context // ends when the endpoint is closed
	cancel     context.CancelCauseFunc
	background sync.WaitGroup // goroutines of the modern handler
}

// A storeProvider is a server with a store. [Handler] and [StoreStatus] look for it on the server. Without it,
// sessions belong to one process.
type storeProvider interface{ Store() store.Store }

// A schemaProvider is a server that knows the input schemas of its tools. [Handler] looks for it on the
// server. Without it, Mcp-Param headers are not compared with the arguments.
type schemaProvider interface {
	InputSchema(ctx context.Context, tool string) json.RawMessage
}

// Handler returns an http.Handler that serves an MCP server at one URL. opts may be nil. Handler panics if an option is
// malformed: a host or an origin.
//
// A *server.Server has two methods that the endpoint uses if server has them, too:
//
//   - Store() store.Store returns the store for the sessions of clients of earlier versions, and for
//     the events of their streams. Any replica with the same store serves any request of a session,
//     and a client that lost its connection receives the events that it has missed (Last-Event-ID).
//     Requests without a session do not use it. The caller closes it after the endpoint. By default,
//     the endpoint has a [store.NewMemory] with 10 MiB for events, so that a session belongs to one
//     process.
//   - InputSchema(ctx context.Context, tool string) json.RawMessage returns the schema of a tool, for the
//     request with that context. The endpoint refuses calls whose Mcp-Param headers differ from their
//     arguments.
//
// Close ends all sessions and subscriptions and refuses new requests. It waits for the calls of
// sessions up to Options.Conn.Grace and returns nil. It does not wait for calls without a
// session: use http.Server.Shutdown. It may be called more than once.
func Handler(server transport.Binder, opts *Options) *Endpoint {
	f, err := newFront(opts)
	if err != nil {
		panic("streamable.Handler: " + err.Error())
	}
	e, err := f.newHandler(server, "")
	if err != nil {
		panic("streamable.Handler: " + err.Error())
	}
	return e
}

// newFront returns an error for a malformed host or origin.
func newFront(opts *Options) (*front, error) {
	f := &front{opts: opts.withDefaults()}
	f.warnings = httpguard.NewWarnings(f.opts.Logger, f.opts.TrustedProxies)
	f.quota = quota.NewEndpoint(&f.opts.Limits)
	var err error
	f.guard, err = httpguard.NewGuard(f.opts.Hosts, f.opts.Origins)
	return f, err
}

// newHandler returns the endpoint of one server. Its sessions are valid for this realm only.
func (f *front) newHandler(server transport.Binder, realm string) (*Endpoint, error) {
	e := &Endpoint{front: f, server: server}
	config := session.Config{
		Server: server, Realm: realm, Quota: e.quota,
		TrustedProxies: e.opts.TrustedProxies, Limits: e.opts.Limits, KeepAlive: e.opts.KeepAlive, Conn: e.opts.Conn, Logger: e.opts.Logger,
	}
	if server, ok := server.(storeProvider); ok {
		config.Store = server.Store()
	}
	var err error
	if e.sessions, err = session.New(config); err != nil {
		return nil, err
	}
	e.headerParams.tools = newCache[headerTool](maxHeaderTools)
	e.headerParams.server, _ = server.(schemaProvider)
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.modern = server.Bind(transport.Link{
		Input: e.ctx, Shared: true,
		Go: func(fn func(context.Context)) { e.background.Go(func() { fn(e.ctx) }) },
	})
	return e, nil
}

var _ httptransport.Endpoint = (*Endpoint)(nil)

// Close implements [httptransport.Endpoint]; see [Handler].
func (e *Endpoint) Close() error {
	e.cancel(jsonrpc.ErrClosed)
	err := e.sessions.Close()
	e.background.Wait()
	return err
}

// ServeHTTP answers one request. A call that [transport.Authorize] refuses because of a missing
// scope is answered with status 403 and a challenge.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.admit(w, r) {
		e.serve(w, r)
	}
}

// admit reports whether a request may continue. If not, it has been answered.
func (f *front) admit(w http.ResponseWriter, r *http.Request) bool {
	return f.guard.Admit(w, r, http.MethodPost, http.MethodGet, http.MethodDelete)
}

// serve answers a request that was admitted.
func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	if e.ctx.Err() != nil {
		httpguard.RefuseBusy(w, session.ErrShuttingDown.Error())
		return
	}
	e.warnings.Check(r)
	w = httpguard.CopyWrites(w, r)
	switch r.Method {
	case http.MethodPost:
		e.servePost(w, r)
	case http.MethodGet:
		e.sessions.Get(w, r)
	case http.MethodDelete:
		e.sessions.Delete(w, r)
	}
}

// servePost decodes a message and serves it in its era. The order of the checks is part of the
// protocol. See MCP 2026-07-28, basic/transports/streamable-http and basic/versioning.
func (e *Endpoint) servePost(w http.ResponseWriter, r *http.Request) {
	accepts := wire.AcceptedBy(r)
	if !accepts.JSON && !accepts.Events {
		httpguard.Refuse(w, http.StatusNotAcceptable, jsonrpc.InvalidRequest, "Accept must list application/json and text/event-stream")
		return
	}
	body, charge, ok := httpguard.ReadJSON(w, r, e.opts.Limits.MessageBytes, e.quota.Bytes)
	if !ok {
		return
	}
	defer charge.Release()
	switch items, err := jsonrpc.SplitBatch(body); {
	case err != nil:
		refuseMalformed(w, err)
		return
	case items != nil:
		e.batch(w, r, accepts, charge, body, items)
		return
	}
	msg, err := jsonrpc.Decode(body)
	if err != nil {
		session.Trace(&e.opts.Conn, body)
		refuseMalformed(w, err)
		return
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		e.sessions.Receive(w, r, accepts, charge, body, msg)
		return
	}
	if !req.IsNotification() && !authorize(w, r, req) {
		session.Trace(&e.opts.Conn, body)
		return
	}
	declared := req.Member("_meta", mcp.MetaProtocolVersion)
	if declared == nil && !namesModernVersion(r.Header) {
		e.sessions.Receive(w, r, accepts, charge, body, req)
		return
	}
	traced := session.Trace(&e.opts.Conn, body)
	switch {
	case req.IsNotification():
		w.WriteHeader(http.StatusAccepted) // the versions without sessions define no notification of clients
	case declared != nil:
		e.answer(w, r, accepts, traced, req, declared)
	default:
		refuseWithoutVersion(w, req)
	}
}

// batch accepts an array of messages, which only sessions may send.
func (e *Endpoint) batch(w http.ResponseWriter, r *http.Request, accepts wire.Accepts, charge *bufpool.Charge, body []byte, items []json.RawMessage) {
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
	if authorizeAll(w, r, msgs) {
		e.sessions.ReceiveBatch(w, r, accepts, charge, body, msgs, calls)
	}
}

// refuseWithoutVersion answers a call whose header names a version without sessions, and
// whose body names no version.
func refuseWithoutVersion(w http.ResponseWriter, req *jsonrpc.Request) {
	refusal := &jsonrpc.Error{
		Code: jsonrpc.InvalidParams,
		Message: fmt.Sprintf("the header %s names a version in which params._meta must have %q and %q",
			wire.HeaderVersion, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities),
	}
	if req.Method == mcp.MethodInitialize {
		refusal = headerMismatch(fmt.Sprintf("the header %s names a version that has no initialize", wire.HeaderVersion))
	}
	wire.RefuseCall(w, http.StatusBadRequest, req, refusal)
}

// refuseMalformed answers a malformed message, with its id if that could be read.
func refuseMalformed(w http.ResponseWriter, err error) {
	bad, ok := errors.AsType[*jsonrpc.DecodeError](err)
	if !ok {
		bad = &jsonrpc.DecodeError{Err: &jsonrpc.Error{Code: jsonrpc.ParseError, Message: err.Error()}}
	}
	wire.RefuseCall(w, http.StatusBadRequest, &jsonrpc.Request{ID: bad.ID}, bad.Err)
}

// authorize reports whether the authentication of a request permits a call. If not, the request
// has been answered. See MCP 2025-11-25, basic/authorization, section Runtime Insufficient
// Scope Errors.
func authorize(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) bool {
	err := transport.Authorize(r.Context(), req)
	if err == nil {
		return true
	}
	addErrorHeaders(w, err)
	wire.RefuseCall(w, status(err), req, wire.Error(err))
	return false
}

// authorizeAll is like authorize for a batch, which is refused as a whole.
func authorizeAll(w http.ResponseWriter, r *http.Request, batch []jsonrpc.Message) bool {
	for _, msg := range batch {
		req, ok := msg.(*jsonrpc.Request)
		if !ok || req.IsNotification() {
			continue
		}
		if err := transport.Authorize(r.Context(), req); err != nil {
			addErrorHeaders(w, err)
			e := wire.Error(err)
			httpguard.Refuse(w, status(err), e.Code, e.Message)
			return false
		}
	}
	return true
}

// addErrorHeaders adds the challenge of a missing scope to the header of the response, and says that
// a busy server can be called again. It is called before the status is written.
func addErrorHeaders(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*transport.ScopeError](err); ok && e.Challenge != "" {
		w.Header().Add("WWW-Authenticate", e.Challenge)
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.Busy {
		httpguard.SetRetryAfter(w)
	}
}

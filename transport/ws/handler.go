package ws

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/textproto"
	"slices"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/wsconn"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

// subprotocol is the WebSocket subprotocol of MCP.
const subprotocol = "mcp"

// A handler is the endpoint of a server.
type handler struct {
	server   transport.Binder
	opts     Options
	guard    *httpguard.Guard
	warnings *httpguard.Warnings
	upgrader websocket.Upgrader
	limits   limits
	quota    *quota.Endpoint
	failures *quota.Samples
	sessions *sessions
}

// Handler returns an http.Handler that serves MCP at one path. Each WebSocket is a session of its own. opts may be nil. Handler panics if the options
// contain a malformed host or origin.
//
// Close ends every session and refuses new ones. It returns when they have ended, at most
// [jsonrpc.Options.Grace] and a few seconds later. It may be called more than once, for
// example by http.Server.RegisterOnShutdown, since Shutdown itself ignores WebSockets.
func Handler(server transport.Binder, opts *Options) httptransport.Endpoint {
	o := opts.withDefaults()
	guard, err := httpguard.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		panic("ws: Options." + err.Error())
	}
	q := quota.NewEndpoint(&o.Limits)
	return &handler{
		server: server, opts: o, guard: guard, warnings: httpguard.NewWarnings(o.Logger, o.TrustedProxies),
		upgrader: wsconn.Upgrader(subprotocol, o.Limits.WriteTimeout),
		limits: limits{
			maxMessage: o.Limits.MessageBytes, writeTimeout: o.Limits.WriteTimeout, keepAlive: o.KeepAlive,
			bytes: q.Bytes, buffers: &sync.Pool{}, closeCode: websocket.CloseGoingAway,
		},
		quota: q, failures: quota.NewSamples(o.Logger), sessions: newSessions(q.Sessions),
	}
}

// ServeHTTP serves one session, until its WebSocket ends or the endpoint is closed. The
// contexts of its calls have the values of the request's context. A refusal has a JSON-RPC
// error as body. Its status is 403 for a Host or an Origin that is not allowed, 426 for a
// request that opens no WebSocket, 400 for one without the subprotocol unless
// [Options].NoSubprotocol is set, and 503 for one session too many.
func (e *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.guard.Admit(w, r, http.MethodGet) || !wsconn.Accept(w, r) {
		return
	}
	if !e.opts.NoSubprotocol && !slices.Contains(websocket.Subprotocols(r), subprotocol) {
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "expected the WebSocket subprotocol "+subprotocol)
		return
	}
	e.warnings.Check(r)
	principal, network := transport.Principal(r.Context()), httpguard.Network(r, e.opts.TrustedProxies)
	holder := quota.HolderOf(principal, network)
	if err := e.sessions.begin(holder); err != nil {
		httpguard.RefuseBusy(w, err.Error())
		return
	}
	defer e.sessions.end(holder)
	conn, err := wsconn.Upgrade(&e.upgrader, w, r)
	if err != nil {
		e.failures.Log(slog.LevelDebug, "WebSocket handshake failed", "error", err, "client", r.RemoteAddr)
		return
	}
	e.serve(r, newSocket(conn, e.limits), principal, network)
}

func (e *handler) serve(r *http.Request, socket *socket, principal, network string) {
	conn := duplex.Serve(socket, e.server, principal, network, &e.opts.Conn, e.quota)
	ctx, cancel := context.WithCancelCause(transport.WithRequest(r.Context(), network, textproto.MIMEHeader(r.Header), ""))
	defer cancel(nil)
	stop := context.AfterFunc(e.sessions.ctx, func() { cancel(jsonrpc.ErrClosed) })
	defer stop()
	_ = conn.Run(ctx) // closeReason says more
	if end := socket.closeReason(); end != nil && !end.isNormal() {
		e.failures.Log(slog.LevelDebug, "session failed", "error", end, "client", r.RemoteAddr)
	}
}

// Close implements [httptransport.Endpoint]; see [Handler].
func (e *handler) Close() error {
	e.sessions.close()
	return nil
}

var errEndpointClosed = errors.New("the server is closing")

// sessions counts the sessions of an endpoint.
type sessions struct {
	quota  *quota.Quota
	ctx    context.Context // ends when the endpoint is closed
	cancel context.CancelFunc

	mu      sync.Mutex // orders begin and close
	running sync.WaitGroup
}

func newSessions(q *quota.Quota) *sessions {
	s := &sessions{quota: q}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// begin adds a session. The error is meant for the client.
func (s *sessions) begin(h quota.Holder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errEndpointClosed
	}
	if err := s.quota.Acquire(h); err != nil {
		return err
	}
	s.running.Add(1)
	return nil
}

// end removes a session.
func (s *sessions) end(h quota.Holder) {
	s.quota.Release(h)
	s.running.Done()
}

// close ends all sessions and waits for them.
func (s *sessions) close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

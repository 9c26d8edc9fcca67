package ws

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/wsopen"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// subprotocol is what both ends must name.
const subprotocol = "mcp"

// An Endpoint serves MCP at one path. Each socket is a session of its own. It may be
// used concurrently.
type Endpoint struct {
	server   transport.Binder
	opts     Options
	guard    *edge.Guard
	upgrader websocket.Upgrader
	limits   limits
	sessions *sessions
}

// Handler returns an endpoint for a server. It panics when the options hold a host or
// an origin that is none.
func Handler(server transport.Binder, opts *Options) *Endpoint {
	o := opts.withDefaults()
	guard, err := edge.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		panic("ws: Options." + err.Error())
	}
	return &Endpoint{
		server: server, opts: o, guard: guard,
		upgrader: wsopen.Upgrader(subprotocol, o.WriteTimeout),
		limits: limits{
			maxMessage: o.MaxMessage, writeTimeout: o.WriteTimeout, keepAlive: o.KeepAlive,
			buffers: &sync.Pool{}, closeCode: websocket.CloseGoingAway,
		},
		sessions: newSessions(o.MaxSessions, o.MaxPerPrincipal),
	}
}

// ServeHTTP serves one session, until its socket ends or the endpoint is closed. The
// contexts of its calls have the values of the request's. It refuses, with a JSON-RPC
// error as body, a Host or an Origin that is not allowed (403), a request that opens no
// WebSocket (426), one without the subprotocol (400), and a session too many (503).
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.guard.Admit(w, r, http.MethodGet) {
		return
	}
	if !wsopen.Admit(w, r) {
		return
	}
	if !slices.Contains(websocket.Subprotocols(r), subprotocol) {
		edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "expected the WebSocket subprotocol "+subprotocol)
		return
	}
	principal := transport.Principal(r.Context())
	if err := e.sessions.begin(principal); err != nil {
		w.Header().Set("Retry-After", retryAfter)
		edge.Refuse(w, http.StatusServiceUnavailable, jsonrpc.Busy, err.Error())
		return
	}
	defer e.sessions.end(principal)
	conn, err := wsopen.Upgrade(&e.upgrader, w, r)
	if err != nil {
		e.opts.Logger.Debug("no WebSocket was opened", "error", err, "client", r.RemoteAddr)
		return
	}
	e.serve(r, newSocket(conn, e.limits), principal)
}

func (e *Endpoint) serve(r *http.Request, socket *socket, principal string) {
	conn := jsonrpc.NewConn(socket, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return e.server.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: principal})
	}, &e.opts.Conn)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(e.sessions.open, func() { cancel(jsonrpc.ErrClosed) })
	defer stop()
	_ = conn.Run(ctx) // the socket knows better why it has ended
	if end := socket.endedWith(); end != nil && !end.isUsual() {
		e.opts.Logger.Debug("a session has ended", "error", end, "client", r.RemoteAddr)
	}
}

// Close ends every session and refuses new ones. It returns when they have ended,
// within a bound of some seconds and [jsonrpc.Options.Grace]. It may be called more than once, for
// example by http.Server.RegisterOnShutdown: Shutdown itself leaves WebSockets alone.
func (e *Endpoint) Close() error {
	e.sessions.close()
	return nil
}

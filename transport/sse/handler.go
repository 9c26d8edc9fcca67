package sse

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// An Endpoint serves event streams and takes what is posted to them: a GET opens a
// session, a POST brings a message. It is mounted at the path of the stream, and at
// [Options.Messages] if that is another one. It may be used concurrently.
type Endpoint struct {
	server   transport.Binder
	opts     Options
	guard    *edge.Guard
	sessions *sessions
}

// Handler returns an endpoint for a server. It panics when the options hold a host, an
// origin or a path that is none.
//
// An http.Server around it needs a ReadHeaderTimeout, and must have no ReadTimeout;
// reverse proxies in front must not buffer the stream.
func Handler(server transport.Binder, opts *Options) *Endpoint {
	o := opts.withDefaults()
	guard, err := edge.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		panic("sse: Options." + err.Error())
	}
	if o.Messages != "" && !isPath(o.Messages) {
		panic("sse: Options.Messages: expected a path, such as /messages")
	}
	return &Endpoint{server: server, opts: o, guard: guard, sessions: newSessions(o.MaxSessions, o.MaxPerPrincipal)}
}

// ServeHTTP serves one stream, until the client is gone, takes nothing any more or
// the endpoint is closed; or takes one message, with status 202. The contexts of a
// session's calls have the values of that of the request for its stream. It refuses, with
// a JSON-RPC error as body, a Host or an Origin that is not allowed (403), a session too
// many (503), a body that is no JSON (415), too long (413) or too slow (408), a message
// for a session that is unknown or of another client (404), and one that the session
// cannot take in time (503).
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.guard.Admit(w, r, http.MethodGet, http.MethodPost) {
		return
	}
	if r.Method == http.MethodGet {
		e.open(edge.Copies(w, r), r)
		return
	}
	e.post(w, r)
}

// Close ends every session and refuses new ones. It returns when they have ended,
// after some seconds and [jsonrpc.Options.Grace] at the latest; the error says that
// streams are still open then. It may be called more than once, for example by
// http.Server.RegisterOnShutdown: Shutdown itself waits for streams.
func (e *Endpoint) Close() error { return e.sessions.close() }

// open serves a session.
func (e *Endpoint) open(w http.ResponseWriter, r *http.Request) {
	session, err := e.sessions.begin(transport.Principal(r.Context()))
	if err != nil {
		refuseBusy(w, err.Error())
		return
	}
	defer e.sessions.end(session)
	session.stream = sse.Start(w, e.opts.WriteTimeout)
	defer session.stream.Close()
	session.conn = jsonrpc.NewConn(session, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return e.server.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: session.principal})
	}, &e.opts.Conn)
	values := context.WithoutCancel(r.Context())
	go func() { _ = session.conn.Run(values) }() // it ends with the stream
	defer func() {
		session.conn.Close()
		<-session.conn.Done()
	}()
	defer close(session.sent)
	endpoint := sse.Event{Name: eventEndpoint, Data: []byte(e.messagesURI(r, session.id))}
	if e.sessions.run(session) && session.stream.Send(r.Context(), endpoint) == nil {
		session.send(r.Context().Done(), e.opts.KeepAlive)
	}
}

// messagesURI is where a session's messages are to be posted: a path, since only the
// client knows under which name it has found this server.
func (e *Endpoint) messagesURI(r *http.Request, id string) string {
	path := e.opts.Messages
	if path == "" {
		path = r.URL.EscapedPath()
		if seen, err := url.ParseRequestURI(r.RequestURI); err == nil {
			path = seen.EscapedPath() // http.StripPrefix does not change it
		}
		path = "/" + strings.TrimLeft(path, "/") // two slashes would begin a host
	}
	return path + "?sessionId=" + id
}

// post takes one message.
func (e *Endpoint) post(w http.ResponseWriter, r *http.Request) {
	body, ok := edge.ReadJSON(w, r, e.opts.MaxMessage)
	if !ok {
		return
	}
	session := e.sessions.find(r.URL.Query().Get("sessionId"), transport.Principal(r.Context()))
	status := http.StatusNotFound
	if session != nil {
		status = session.post(r.Context(), body)
	}
	switch status {
	case http.StatusAccepted:
		w.WriteHeader(status)
	case http.StatusNotFound:
		edge.Refuse(w, status, jsonrpc.InvalidRequest, "there is no such session; a new one begins with a new stream")
	default:
		refuseBusy(w, "busy: the session has messages enough to handle")
	}
}

func refuseBusy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", retryAfter)
	edge.Refuse(w, http.StatusServiceUnavailable, jsonrpc.Busy, message)
}

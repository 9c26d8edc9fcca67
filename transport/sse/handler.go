package sse

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

// A handler is the endpoint of a server.
type handler struct {
	server   transport.Binder
	opts     Options
	guard    *httpguard.Guard
	warnings *httpguard.Warnings
	quota    *quota.Endpoint
	sessions *sessions
}

// Handler returns an http.Handler for event streams (GET) and for the messages that clients post (POST). Mount it at the
// path of the stream, and at [Options.Messages] if that path differs. A message names its session in the query of the
// URI, or in the header Mcp-Session-Id. opts may be nil. Handler panics if the options
// contain a malformed host, origin or path.
//
// An http.Server around the endpoint needs a ReadHeaderTimeout and must not have a
// ReadTimeout. Reverse proxies in front must not buffer the stream.
//
// Close ends every session and refuses new ones. It waits until they have ended, at most
// [jsonrpc.Options.Grace] and a few seconds, and returns an error if streams are still open
// then. It may be called more than once, for example by http.Server.RegisterOnShutdown, since
// Shutdown itself waits for streams.
func Handler(server transport.Binder, opts *Options) httptransport.Endpoint {
	o := opts.withDefaults()
	guard, err := httpguard.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		panic("sse: Options." + err.Error())
	}
	if o.Messages != "" && (!isPath(o.Messages) || o.SessionHeader) {
		panic("sse: Options.Messages: expected a path, such as /messages, and no SessionHeader")
	}
	q := quota.NewEndpoint(&o.Limits)
	return &handler{server: server, opts: o, guard: guard, warnings: httpguard.NewWarnings(o.Logger, o.TrustedProxies), quota: q, sessions: newSessions(q.Sessions)}
}

// isPath reports whether text is a percent-encoded absolute path.
func isPath(text string) bool {
	u, err := url.Parse(text)
	return err == nil && strings.HasPrefix(text, "/") && u.EscapedPath() == text
}

// ServeHTTP serves one stream or one posted message. A stream lasts until the client
// disconnects, a write times out or the endpoint is closed. The contexts of a session's calls
// have the values of the context of the stream's request. An accepted message is answered
// with status 202.
//
// A refusal has a JSON-RPC error as body. Its status is 403 for a Host or an Origin that is
// not allowed; 503 for one session too many and for a message that the session cannot take
// in time; 415, 413 or 408 for a body that is not JSON, too long or too slow; 404 for a
// message to a session that is unknown or belongs to another client.
func (e *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.guard.Admit(w, r, http.MethodGet, http.MethodPost) {
		return
	}
	e.warnings.Check(r)
	if r.Method == http.MethodGet {
		e.open(httpguard.CopyWrites(w, r), r)
		return
	}
	e.post(w, r)
}

// Close implements [httptransport.Endpoint]; see [Handler].
func (e *handler) Close() error { return e.sessions.close() }

// open serves a session.
func (e *handler) open(w http.ResponseWriter, r *http.Request) {
	session, err := e.sessions.begin(transport.Principal(r.Context()), httpguard.Network(r, e.opts.TrustedProxies))
	if err != nil {
		httpguard.RefuseBusy(w, err.Error())
		return
	}
	defer e.sessions.end(session)
	session.stream = sse.Start(w, e.opts.Limits.WriteTimeout)
	defer session.stream.Close()
	session.conn = duplex.Serve(session, e.server, session.principal, session.network, &e.opts.Conn, e.quota)
	values := transport.WithRequest(context.WithoutCancel(r.Context()), session.network, textproto.MIMEHeader(r.Header), session.id)
	go func() { _ = session.conn.Run(values) }() // it ends with the stream
	defer func() {
		session.conn.Close()
		<-session.conn.Done()
	}()
	defer close(session.sent)
	endpoint := sse.Event{Name: eventEndpoint, Data: e.endpointData(r, session.id)}
	if e.sessions.add(session) && session.stream.Send(r.Context(), endpoint) == nil {
		session.send(r.Context().Done(), e.opts.KeepAlive)
	}
}

// endpointData returns the data of the event "endpoint" of a session.
func (e *handler) endpointData(r *http.Request, id string) []byte {
	if e.opts.SessionHeader {
		return []byte(`{"session_id":"` + id + `"}`)
	}
	return []byte(e.messagesURI(r, id))
}

// sessionID returns the id of the session of a posted message.
func sessionID(r *http.Request) string {
	if id := r.URL.Query().Get("sessionId"); id != "" {
		return id
	}
	id := r.Header.Get(headerSession)
	if _, ofURI, isURI := strings.Cut(id, "?sessionId="); isURI {
		return ofURI // clients of lauren-mcp take an endpoint that is not JSON as the id
	}
	return id
}

// messagesURI returns the URI for messages to a session. It has no host, since only the
// client knows under which name it reached this server.
func (e *handler) messagesURI(r *http.Request, id string) string {
	path := e.opts.Messages
	if path == "" {
		path = r.URL.EscapedPath()
		if original, err := url.ParseRequestURI(r.RequestURI); err == nil {
			path = original.EscapedPath() // http.StripPrefix does not change it
		}
		path = "/" + strings.TrimLeft(path, "/") // two slashes would begin a host
	}
	return path + "?sessionId=" + id
}

// post accepts one message.
func (e *handler) post(w http.ResponseWriter, r *http.Request) {
	body, charge, ok := httpguard.ReadJSON(w, r, e.opts.Limits.MessageBytes, e.quota.Bytes)
	if !ok {
		return
	}
	session := e.sessions.find(sessionID(r), transport.Principal(r.Context()))
	status := http.StatusNotFound
	if session != nil {
		status = session.post(r.Context(), posted{body, charge})
	}
	if status != http.StatusAccepted {
		charge.Release()
	}
	switch status {
	case http.StatusAccepted:
		w.WriteHeader(status)
	case http.StatusNotFound:
		httpguard.Refuse(w, status, jsonrpc.InvalidRequest, "the session does not exist; open a new stream to begin a session")
	default:
		httpguard.RefuseBusy(w, "busy: too many messages of the session are waiting")
	}
}

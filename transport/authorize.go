package transport

import (
	"context"
	"encoding/json"
	"net/textproto"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

type principalKey struct{}

// WithPrincipal returns a context that names an authenticated client. The code that
// authenticates requests, such as middleware around an HTTP handler, calls it; transports
// bind sessions to the principal. The context of a Dial sets the principal of a [Pipe].
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// Principal returns the name that [WithPrincipal] has put into the context, "" if none.
func Principal(ctx context.Context) string {
	name, _ := ctx.Value(principalKey{}).(string)
	return name
}

// WithRequest returns a context with what an HTTP request says about a call, for [Network], [Header] and [SessionID]. The
// endpoints of HTTP call it.
//
// network is the network of the client, for its share of the limits that protect a server from clients that are not
// authenticated: an IPv4 address such as 192.0.2.7, or the first 64 bits of an IPv6 address such as 2001:db8:1:2::/64, which
// one client can have as a whole, or "unknown" for a client without an address, such as over a Unix socket. header is not copied.
// sessionID is "" for a request without a session.
func WithRequest(ctx context.Context, network string, header textproto.MIMEHeader, sessionID string) context.Context {
	return &requestContext{ctx, network, header, sessionID}
}

// Network returns the network of the client; see [WithRequest]. It returns "" if the context has none.
func Network(ctx context.Context) string {
	if request := requestOf(ctx); request != nil {
		return request.network
	}
	return ""
}

// Header returns the header of the HTTP request that a call came with, with the credentials in it. It must not be changed;
// http.Header(h) converts it. Over WebSocket and HTTP+SSE it is the request that has opened the session. It returns nil over
// other transports, and for a call that runs as a task.
func Header(ctx context.Context) textproto.MIMEHeader {
	if request := requestOf(ctx); request != nil {
		return request.header
	}
	return nil
}

// SessionID returns the id of the session that a call belongs to, over HTTP+SSE and over streamable HTTP with a version that
// has sessions (until 2025-11-25). Otherwise it returns "". The id is a secret of the client: do not log it.
func SessionID(ctx context.Context) string {
	if request := requestOf(ctx); request != nil {
		return request.sessionID
	}
	return ""
}

func requestOf(ctx context.Context) *requestContext {
	request, _ := ctx.Value(requestKey{}).(*requestContext)
	return request
}

type requestKey struct{}

// A requestContext is one allocation, which matters for each request.
type requestContext struct {
	context.Context
	network   string
	header    textproto.MIMEHeader
	sessionID string
}

func (c *requestContext) Value(key any) any {
	if key == (requestKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// An Authorizer returns nil if its client may make a call. It returns a *[ScopeError] if the token needs more scopes;
// other errors are sent to the client like the errors of a [jsonrpc.Handler]. It may be called concurrently.
type Authorizer func(ctx context.Context, req *jsonrpc.Request) error

type authorizerKey struct{}

// WithAuthorizer returns a context in which calls need authorization. The code that
// authenticates requests, such as middleware around an HTTP handler, calls it; transports
// authorize each call before a server gets it.
func WithAuthorizer(ctx context.Context, authorize Authorizer) context.Context {
	return context.WithValue(ctx, authorizerKey{}, authorize)
}

// Authorize returns the error of the [Authorizer] of ctx for a call. It returns nil if ctx
// has none.
func Authorize(ctx context.Context, req *jsonrpc.Request) error {
	authorize, _ := ctx.Value(authorizerKey{}).(Authorizer)
	if authorize == nil {
		return nil
	}
	return authorize(ctx, req)
}

// AuthorizeBefore returns a function for [jsonrpc.Options].Authorize that calls [Authorize]
// and, if that succeeds, next. next may be nil.
func AuthorizeBefore(next func(ctx context.Context, req *jsonrpc.Request) error) func(ctx context.Context, req *jsonrpc.Request) error {
	if next == nil {
		return Authorize
	}
	return func(ctx context.Context, req *jsonrpc.Request) error {
		if err := Authorize(ctx, req); err != nil {
			return err
		}
		return next(ctx, req)
	}
}

// A ScopeError refuses a call because the client's token lacks a scope. Streamable HTTP
// answers with status 403 and the challenge, unless the response has begun. The message that
// the client gets is the error's Unwrap.
type ScopeError struct {
	// Scopes are all scopes that the call needs.
	Scopes []string
	// Challenge is the value of the header WWW-Authenticate; "" means none.
	Challenge string
}

// Error lists the scopes.
func (e *ScopeError) Error() string {
	return "the token lacks a scope: the call needs " + strings.Join(e.Scopes, " ")
}

// Unwrap returns the *[jsonrpc.Error] for the client: code -32603 with data
// {"type":"FORBIDDEN","guard":"scope","scopes":[…]}, which client.IsForbidden recognizes.
func (e *ScopeError) Unwrap() error {
	data, err := json.Marshal(struct {
		Type   string   `json:"type"`
		Guard  string   `json:"guard"`
		Scopes []string `json:"scopes"`
	}{"FORBIDDEN", "scope", e.Scopes})
	if err != nil {
		return err // not reached: strings can be marshalled
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error(), Data: data}
}

package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// AccessOptions configure an [Access]. The zero value is good: a random token.
type AccessOptions struct {
	// Tokens are principals by their tokens, which have at least 16 characters of
	// A-Z, a-z, 0-9 and -._~. Policies decide by the principal. Callers with one
	// principal share their sessions with servers. The principal may be "".
	Tokens map[string]string
	// Authenticate decides about requests that have none of the tokens, such as those that
	// another middleware has authenticated:
	//
	//	func(r *http.Request) (string, bool) {
	//		principal := transport.Principal(r.Context())
	//		return principal, principal != ""
	//	}
	Authenticate func(r *http.Request) (principal string, ok bool)
	// Open admits requests without a token on connections to a loopback address: then every
	// program on this machine can call every tool. NewAccess logs a warning.
	Open bool
	// Hosts and Origins are allowed in addition to loopback ones, as for the MCP endpoints of
	// package transport/streamable.
	Hosts, Origins []string
	// Logger takes refusals, without tokens. Default slog.Default().
	Logger *slog.Logger
}

// An Access admits HTTP requests: those that have a token, an allowed host name (which excludes
// pages that reach this machine by DNS rebinding), an allowed origin or none, and no body other
// than JSON. It may be used concurrently. Formatting it redacts the token.
type Access struct {
	opts  AccessOptions
	guard *edge.Guard
	salt  []byte
	token func() string // a function, because reflection cannot look into one

	mu         sync.RWMutex
	principals map[digest]string
}

// A digest is a salted hash of a token, so that the time of a look-up says nothing about tokens.
type digest [sha256.Size]byte

// NewAccess returns an access. Without Tokens, Authenticate and Open it has one random token; see
// [Access.Token]. The error names a token, host or origin that is wrong, but does not contain the
// token. opts may be nil.
func NewAccess(opts *AccessOptions) (*Access, error) {
	a := &Access{salt: []byte(rand.Text()), token: func() string { return "" }, principals: make(map[digest]string)}
	if opts != nil {
		a.opts = *opts
	}
	a.opts.Logger = cmp.Or(a.opts.Logger, slog.Default())
	var err error
	if a.guard, err = edge.NewGuard(a.opts.Hosts, a.opts.Origins); err != nil {
		return nil, fmt.Errorf("gateway: AccessOptions.%w", err)
	}
	for token, principal := range a.opts.Tokens {
		if !edge.IsToken(token) {
			return nil, fmt.Errorf("gateway: AccessOptions.Tokens: that of %q must have %d or more characters of A-Z, a-z, 0-9 and -._~", principal, edge.MinToken)
		}
		a.principals[a.digest(token)] = principal
	}
	a.opts.Tokens = nil
	switch {
	case a.opts.Open:
		a.opts.Logger.Warn("the gateway is open: programs on this machine need no token")
	case len(a.principals) == 0 && a.opts.Authenticate == nil:
		token, _ := a.Issue("")
		a.token = func() string { return token }
	}
	return a, nil
}

// Token returns the random token, or "" if the options say otherwise. Requests have it as
// "Authorization: Bearer T". Show it to the operator only.
func (a *Access) Token() string { return a.token() }

// Issue returns another token for a principal, such as a sandbox. It is valid until revoke is
// called, which does not end requests that are served.
func (a *Access) Issue(principal string) (token string, revoke func()) {
	token = rand.Text()
	key := a.digest(token)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.principals[key] = principal
	return token, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.principals, key)
	}
}

func (a *Access) digest(token string) digest {
	return sha256.Sum256(append(append(make([]byte, 0, len(a.salt)+len(token)), a.salt...), token...))
}

// admitted is the key of the Access that a request has passed.
type admitted struct{}

// Handler returns a handler that passes on the requests that are admitted, with the principal
// that transport.Principal returns. It answers others: 401 without a token, 403 for a host or an
// origin that is not allowed, 405 for an unusual method, 415 for a body that is not JSON. Within a
// handler of the same Access it passes on everything.
func (a *Access) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(admitted{}) == a {
			next.ServeHTTP(w, r)
			return
		}
		if !a.guard.Admit(w, r, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete) {
			return
		}
		principal, ok := a.who(r)
		if !ok {
			a.opts.Logger.Info("a request without a token was refused", "client", r.RemoteAddr, "method", r.Method)
			w.Header().Set("WWW-Authenticate", "Bearer")
			edge.TurnAway(w, r, http.StatusUnauthorized, jsonrpc.InvalidRequest, "expected the header Authorization: Bearer with a token of this gateway")
			return
		}
		if r.ContentLength != 0 && !edge.IsJSON(r.Header["Content-Type"]) {
			edge.TurnAway(w, r, http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest, "expected a body of Content-Type application/json")
			return
		}
		ctx := transport.WithPrincipal(r.Context(), principal)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, admitted{}, a)))
	})
}

// who returns the principal of a request. A request with a wrong token is not admitted as one
// without a token.
func (a *Access) who(r *http.Request) (principal string, ok bool) {
	token := edge.Token(r)
	if token != "" {
		a.mu.RLock()
		principal, ok = a.principals[a.digest(token)]
		a.mu.RUnlock()
	}
	if !ok && a.opts.Authenticate != nil {
		principal, ok = a.opts.Authenticate(r)
	}
	if !ok && a.opts.Open && len(r.Header["Authorization"]) == 0 && token == "" {
		return "", isOnLoopback(r)
	}
	return principal, ok
}

// isOnLoopback reports whether a connection ends at a loopback address.
func isOnLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr != nil && addr.IP.IsLoopback()
}

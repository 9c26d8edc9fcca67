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

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// AuthenticatorOptions configure an [Authenticator]. The zero value means one random token.
type AuthenticatorOptions struct {
	// Tokens maps tokens to principals. A token has at least 16 characters of A-Z, a-z, 0-9 and
	// -._~. The principal, which may be "", is the one that policies decide about. Callers with
	// the same principal share upstream sessions.
	Tokens map[string]string
	// Authenticate decides about requests without a known token, such as those that another
	// middleware has authenticated:
	//
	//	func(r *http.Request) (string, bool) {
	//		principal := transport.Principal(r.Context())
	//		return principal, principal != ""
	//	}
	Authenticate func(r *http.Request) (principal string, ok bool)
	// Open accepts requests without a token on connections to a loopback address. Every program
	// on this machine can then call every tool. NewAuthenticator logs a warning.
	Open bool
	// Hosts and Origins are accepted in addition to the hosts and origins of loopback, as in package
	// transport/streamable.
	Hosts, Origins []string
	// Logger logs rejected requests, without tokens. Default slog.Default().
	Logger *slog.Logger
}

// An Authenticator accepts HTTP requests that have a valid token, an allowed host name, an
// allowed origin or none, and no body other than JSON. The check of the host name prevents DNS
// rebinding. An Authenticator may be used concurrently. Formatting it redacts the token.
type Authenticator struct {
	opts  AuthenticatorOptions
	guard *httpguard.Guard
	salt  []byte
	token func() string // a function, so that formatting with reflection cannot print it

	mu         sync.RWMutex
	principals map[digest]string
}

// A digest is a salted hash of a token, so that the time of a look-up reveals nothing about
// tokens.
type digest [sha256.Size]byte

// NewAuthenticator returns an authenticator. Without Tokens, Authenticate and Open it has one
// random token; see [Authenticator.Token]. The error reports an invalid token, host or origin,
// but does not contain the token. opts may be nil.
func NewAuthenticator(opts *AuthenticatorOptions) (*Authenticator, error) {
	a := &Authenticator{salt: []byte(rand.Text()), token: func() string { return "" }, principals: make(map[digest]string)}
	a.opts = *cmp.Or(opts, new(AuthenticatorOptions))
	a.opts.Logger = cmp.Or(a.opts.Logger, slog.Default())
	var err error
	if a.guard, err = httpguard.NewGuard(a.opts.Hosts, a.opts.Origins); err != nil {
		return nil, fmt.Errorf("gateway: AuthenticatorOptions.%w", err)
	}
	for token, principal := range a.opts.Tokens {
		if !httpguard.IsToken(token) {
			return nil, fmt.Errorf("gateway: AuthenticatorOptions.Tokens: the token of %q must have %d or more characters of A-Z, a-z, 0-9 and -._~", principal, httpguard.MinToken)
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

// Token returns the random token, or "" if the Authenticator has none. A request has it in the header "Authorization:
// Bearer T". Show it to the operator only.
func (a *Authenticator) Token() string { return a.token() }

// Issue returns a new random token for a principal, such as a sandbox. It is valid until revoke
// is called. revoke does not end current requests.
func (a *Authenticator) Issue(principal string) (token string, revoke func()) {
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

func (a *Authenticator) digest(token string) digest {
	return sha256.Sum256(append(append(make([]byte, 0, len(a.salt)+len(token)), a.salt...), token...))
}

// admitted is the context key of the Authenticator that has accepted the request.
type admitted struct{}

// Handler returns a handler that passes accepted requests to next, with their principal in
// transport.Principal. It rejects others: 401 without a valid token, 403 for a host or an
// origin that is not allowed, 405 for an unusual method, 415 for a body that is not JSON.
// Within a handler of the same Authenticator it passes on every request.
func (a *Authenticator) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(admitted{}) == a {
			next.ServeHTTP(w, r)
			return
		}
		if !a.guard.Admit(w, r, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete) {
			return
		}
		principal, ok := a.authenticate(r)
		if !ok {
			a.opts.Logger.Info("rejected a request without a valid token", "client", r.RemoteAddr, "method", r.Method)
			w.Header().Set("WWW-Authenticate", "Bearer")
			httpguard.RefuseUnread(w, r, http.StatusUnauthorized, jsonrpc.InvalidRequest, "expected the header Authorization: Bearer with a token of this gateway")
			return
		}
		if r.ContentLength != 0 && !httpguard.IsJSON(r.Header["Content-Type"]) {
			httpguard.RefuseUnread(w, r, http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest, "expected a body of Content-Type application/json")
			return
		}
		ctx := transport.WithPrincipal(r.Context(), principal)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, admitted{}, a)))
	})
}

// authenticate returns the principal of a request. Open does not apply to a request with an
// invalid token.
func (a *Authenticator) authenticate(r *http.Request) (principal string, ok bool) {
	token := httpguard.Token(r)
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

// isOnLoopback reports whether the local address of a connection is a loopback address.
func isOnLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr != nil && addr.IP.IsLoopback()
}

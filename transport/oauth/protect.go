package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/transport"
)

// Protect returns a handler that lets requests through to another one which carry a
// valid token: in one Authorization header, and nowhere else. All others are refused,
// whatever their path, with the status and the challenge of RFC 6750, section 3, and of
// RFC 9449, section 7.1: 401 without a token, or with one that is not valid, 403 with one
// that lacks a scope, 400 for a header that is malformed, 503 when tokens cannot be
// verified now. The one document that anybody may read is the metadata of the resource
// (RFC 9728), at its well-known path: that with the path of the resource, and that without.
//
// So the handler goes to the root of its server, as an http.Server's Handler or for the
// pattern "/"; or to the paths of the other handler and to
// "/.well-known/oauth-protected-resource" and that with the path of the resource.
//
// The other handler is told who calls by [transport.Principal], and by [FromContext] what
// was granted; transports ask about each call whether the scopes are enough for it. The
// token and the proof are not passed on. The error is about the options.
func Protect(handler http.Handler, opts *ProtectOptions) (http.Handler, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("oauth.Protect: %w", err)
	}
	p := &protector{handler: handler, options: options, implies: closure(options.Implies)}
	if p.resource, err = url.Parse(options.Resource); err != nil {
		return nil, errors.New("oauth.Protect: Resource is no URL")
	}
	if p.metadata, err = publish(p.resource, &options); err != nil {
		return nil, fmt.Errorf("oauth.Protect: %w", err)
	}
	if p.guard, err = edge.NewGuard(nil, options.Origins); err != nil {
		return nil, fmt.Errorf("oauth.Protect: %w", err)
	}
	if p.proofs, err = newProofs(p.resource, options.DPoP); err != nil {
		return nil, fmt.Errorf("oauth.Protect: %w", err)
	}
	return p, nil
}

// A protector is the handler that [Protect] returns.
type protector struct {
	handler  http.Handler
	options  ProtectOptions
	resource *url.URL
	metadata *published
	implies  map[string][]string
	guard    *edge.Guard
	proofs   *proofs
	failed   atomic.Int64 // when it was last logged that tokens cannot be verified, in seconds
}

// Format tells nothing of what the verifier knows.
func (p *protector) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.Protect") }

// ServeHTTP answers one request, or has it answered.
func (p *protector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.metadata.isAt(r.URL.Path) {
		p.metadata.serve(w, r)
		return
	}
	grant, err := p.admit(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	ctx, cancel := p.enter(r.Context(), grant)
	defer cancel()
	admitted := r.WithContext(ctx)
	admitted.Header = withoutCredentials(r.Header)
	p.handler.ServeHTTP(w, admitted)
}

// admit finds out what a request was granted.
func (p *protector) admit(r *http.Request) (*Grant, error) {
	shown, err := credentialsOf(r.Header)
	if err != nil {
		return nil, err
	}
	grant, err := p.options.Verifier.Verify(r.Context(), shown.token, p.options.Audience)
	if _, invalid := errors.AsType[*InvalidTokenError](err); invalid {
		return nil, &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, dpop: shown.dpop, err: err}
	}
	if err == nil && (grant == nil || grant.Principal() == "") {
		err = errors.New("the verifier has let nobody in")
	}
	if err != nil {
		return nil, &refusal{status: http.StatusServiceUnavailable, err: err}
	}
	if !p.end(grant).After(time.Now()) {
		return nil, &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, dpop: shown.dpop, err: errEnded}
	}
	if err := p.proofs.check(r, shown, grant); err != nil {
		return nil, err
	}
	if !p.has(grant, p.options.Scopes) {
		return nil, &refusal{status: http.StatusForbidden, code: codeInsufficientScope, dpop: shown.dpop, err: errScope, scopes: p.options.Scopes}
	}
	return grant, nil
}

var (
	errScope = errors.New("the token lacks a scope that every request needs")
	// errEnded is that of a token that clocks which differ still let pass.
	errEnded = &InvalidTokenError{Reason: "it has expired"}
)

// enter makes the context of an admitted request. It ends some time after the token.
func (p *protector) enter(ctx context.Context, grant *Grant) (context.Context, context.CancelFunc) {
	ctx = transport.WithPrincipal(ctx, grant.Principal())
	ctx = transport.WithAdmission(ctx, p.admitCall)
	ctx = context.WithValue(ctx, admissionKey{}, &admission{p, grant})
	return context.WithDeadlineCause(ctx, p.end(grant), ErrTokenExpired)
}

// end is when a request that begins now has outlasted its token.
func (p *protector) end(grant *Grant) time.Time {
	if grant.Expires.IsZero() {
		return time.Now().Add(maxRequest)
	}
	return grant.Expires.Add(max(p.options.Grace, 0))
}

// withoutCredentials is a header for a handler that has no use for the token, and might
// pass it on.
func withoutCredentials(header http.Header) http.Header {
	header = header.Clone()
	delete(header, "Authorization")
	delete(header, "Dpop")
	return header
}

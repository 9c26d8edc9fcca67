package oauth

import (
	"context"
	"errors"
	"slices"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// offlineAccess is the scope that requests a refresh token. OpenID Connect Core, section 11.
const offlineAccess = "offline_access"

// scopesToRequest returns the scopes of a challenge. If the challenge names no scopes, it
// returns the scopes that the resource lists. It adds the scopes of the options and the scopes
// that were requested before.
func (c *Client) scopesToRequest(challenge tokenChallenge, resource *resourceMetadata, as *serverMetadata, old *credentials) []string {
	scopes := challenge.scopes()
	if len(scopes) == 0 {
		scopes = resource.scopes
	}
	scopes = slices.Concat(scopes, c.options.Scopes)
	if old != nil {
		scopes = append(scopes, old.Requested...)
	}
	_, isCodeFlow := c.options.Flow.(*CodeFlow)
	if isCodeFlow && !c.options.NoRefresh && len(scopes) > 0 && slices.Contains(as.scopes, offlineAccess) {
		scopes = append(scopes, offlineAccess)
	}
	return syntax.UniqueScopes(scopes)
}

// containsAll reports whether all contains each of some.
func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(scope string) bool { return !slices.Contains(all, scope) })
}

// Require returns an error unless the request of a call was granted scopes, or scopes that
// imply them. It is for guards, and for functions that learn only while they run which
// scopes they need. The error is a [*transport.ScopeError] to return; over streamable HTTP
// without a session, the client receives it as a challenge. A context that does not come
// from [Protect] has no scopes.
func Require(ctx context.Context, scopes ...string) error {
	a := authorizationOf(ctx)
	if a == nil {
		if len(scopes) == 0 {
			return nil
		}
		return &transport.ScopeError{Scopes: scopes}
	}
	return a.by.require(a.grant, scopes)
}

// require returns an error unless a grant has scopes. The challenge in it includes the
// scopes that every request needs.
func (p *protector) require(grant *Grant, scopes []string) error {
	if p.has(grant, scopes) {
		return nil
	}
	all := syntax.UniqueScopes(slices.Concat(p.options.Scopes, scopes))
	challenges := p.challenges(&refusal{code: codeInsufficientScope, scopes: all, dpop: grant.Confirmation != "", err: errCallScope})
	return &transport.ScopeError{Scopes: all, Challenge: string(challenges[0].Append(nil))}
}

var errCallScope = errors.New("the token lacks a scope that the call needs")

// authorizeCall checks the scopes of one call. Transports call it.
func (p *protector) authorizeCall(ctx context.Context, req *jsonrpc.Request) error {
	a := authorizationOf(ctx)
	if p.options.CallScopes == nil || a == nil {
		return nil
	}
	if err := p.require(a.grant, p.options.CallScopes(req.Method, mcp.Subject(req.Method, req.Member))); err != nil {
		return err
	}
	var all []string
	for _, uri := range mcp.SubscribedURIs(req.Method, req.Member) {
		all = append(all, p.options.CallScopes(mcp.MethodResourcesSubscribe, uri)...)
	}
	return p.require(a.grant, all)
}

// has reports whether a grant has scopes, or scopes that imply them.
func (p *protector) has(grant *Grant, scopes []string) bool {
	for _, scope := range scopes {
		if !slices.Contains(grant.Scopes, scope) && !slices.ContainsFunc(grant.Scopes, func(broad string) bool {
			return slices.Contains(p.implies[broad], scope)
		}) {
			return false
		}
	}
	return true
}

// closure returns the transitive closure of ProtectOptions.Implies.
func closure(implies map[string][]string) map[string][]string {
	all := make(map[string][]string, len(implies))
	for broad := range implies {
		implied := []string{broad}
		for i := 0; i < len(implied); i++ {
			for _, scope := range implies[implied[i]] {
				if !slices.Contains(implied, scope) {
					implied = append(implied, scope)
				}
			}
		}
		all[broad] = implied
	}
	return all
}

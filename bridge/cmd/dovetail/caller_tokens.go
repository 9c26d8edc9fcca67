package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// callerTokens are the tokens of callers, for servers at which they are exchanged. They are in memory only: each replica has those of
// its own callers, and none is kept longer than it is valid, or than there is such a server.
type callerTokens struct {
	needed atomic.Bool
	last   *lru.Cache[string, callerToken] // by principal
	kept   func(principal string)          // called when a token was kept; set before the first request
}

// A callerToken is the last token of a caller.
type callerToken struct {
	token   oauth.Secret
	expires time.Time
}

func newCallerTokens() (*callerTokens, error) {
	last, err := lru.New[string, callerToken](maxKnownCallers)
	return &callerTokens{last: last}, err
}

// need says whether there is a server at which tokens are exchanged.
func (c *callerTokens) need(needed bool) {
	c.needed.Store(needed)
	if !needed {
		c.last.Purge()
	}
}

// errNoCallerToken says that the token of a caller is not known.
var errNoCallerToken = errors.New("the token of the caller is not known any more: the caller has to send a request")

// of returns the token of a caller.
func (c *callerTokens) of(principal string) (oauth.Secret, error) {
	last, ok := c.last.Get(principal)
	if !ok {
		return "", errNoCallerToken
	}
	if !time.Now().Before(last.expires) {
		c.last.Remove(principal)
		return "", errNoCallerToken
	}
	return last.token, nil
}

// A keepingVerifier keeps the tokens that it has verified, if they are needed. A token that is bound to a key of its caller is of no
// use to others, and is not kept.
type keepingVerifier struct {
	oauth.Verifier
	callers *callers
}

func (v *keepingVerifier) Verify(ctx context.Context, token oauth.Secret, audience string) (*oauth.Grant, error) {
	grant, err := v.Verifier.Verify(ctx, token, audience)
	if err != nil || !v.callers.tokens.needed.Load() || grant.Confirmation != "" || grant.Expires.IsZero() {
		return grant, err
	}
	if who, err := v.callers.callerOf(grant); err == nil {
		v.callers.tokens.last.Add(who.principal, callerToken{token, grant.Expires})
		v.callers.tokens.kept(who.principal)
	}
	return grant, nil
}

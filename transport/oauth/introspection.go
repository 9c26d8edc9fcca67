package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// IntrospectionOptions configure [NewIntrospection].
type IntrospectionOptions struct {
	// Issuer is the authorization server. Responses that name another issuer are refused.
	// Required.
	Issuer string
	// Endpoint is the URL of the introspection endpoint. Required.
	Endpoint string
	// Client is this resource's registration at the authorization server. Its ClientID is
	// required. Its Issuer is empty or the one above. Its Method is client_secret_basic by
	// default, or private_key_jwt with a Key.
	Client Registration
	// CacheTime is how long a response is cached, at most until the token expires. A revoked
	// token may be accepted for that time. Responses about invalid tokens are cached for at
	// most 5 s. Default 30 s, at most 5 min; negative disables the cache.
	CacheTime time.Duration
	// Skew is the tolerated difference between clocks. Default 30 s, at most 5 min.
	Skew time.Duration
	// AllowLoopback allows an endpoint on this machine, also over http. It is for
	// development.
	AllowLoopback bool
	// AllowNetworks lists networks that are allowed although they are not public. They still
	// need https.
	AllowNetworks []netip.Prefix
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
}

const (
	// defaultCacheTime is the default of [IntrospectionOptions].CacheTime.
	defaultCacheTime = 30 * time.Second
	maxCacheTime     = 5 * time.Minute
	// maxCached is the number of valid tokens in the cache, and maxInvalid is the number of
	// invalid tokens. invalidTime is how long an invalid token is cached.
	maxCached   = 10_000
	maxInvalid  = 1000
	invalidTime = 5 * time.Second
	// maxQueries is the number of concurrent queries, and queryWait how long others wait.
	maxQueries = 64
	queryWait  = 2 * time.Second
	// maxIntrospection is the maximum length of a response, in bytes.
	maxIntrospection = 64 << 10
)

// An introspection verifies tokens by querying the authorization server (RFC 7662).
type introspection struct {
	options *IntrospectionOptions // a pointer, so that fmt does not print it as part of another struct
	http    *http.Client
	running *semaphore.Weighted
	queries sharedCalls[*Grant]

	// Two caches, so that made-up tokens cannot evict valid ones.
	valid   *lru.Cache[tokenKey, verification]
	invalid *lru.Cache[tokenKey, verification]
}

// A tokenKey is a hash of a token and an audience.
type tokenKey [sha256.Size]byte

// A verification is the cached result of Verify.
type verification struct {
	grant *Grant
	err   error
	until time.Time
}

var _ Verifier = (*introspection)(nil)

// NewIntrospection returns a verifier that queries the authorization server (RFC 7662). It may be used concurrently.
// NewIntrospection returns an error if the options are invalid.
//
// Responses are cached for a short time. Concurrent requests with the same token share a
// query. At most 64 queries run at a time; others wait up to two seconds, and fail then.
func NewIntrospection(opts *IntrospectionOptions) (Verifier, error) {
	o := *cmp.Or(opts, &IntrospectionOptions{})
	o.CacheTime = cmp.Or(o.CacheTime, defaultCacheTime)
	o.Skew = cmp.Or(o.Skew, defaultSkew)
	if o.Client.Method == "" {
		o.Client.Method = methodBasic
		if o.Client.Key != nil {
			o.Client.Method = methodPrivateKeyJWT
		}
	}
	guard := verifierGuard(o.AllowLoopback, o.AllowNetworks, o.Resolver, maxIntrospection)
	err := o.check()
	if err == nil {
		err = guard.Check(o.Endpoint)
	}
	if err != nil {
		return nil, fmt.Errorf("oauth.NewIntrospection: %w", err)
	}
	client := withoutRedirects(guard.Client(), "the introspection endpoint redirects there, and tokens are not sent to other URLs")
	return &introspection{
		options: &o, http: client, running: semaphore.NewWeighted(maxQueries),
		valid: newLRU[tokenKey, verification](maxCached), invalid: newLRU[tokenKey, verification](maxInvalid),
	}, nil
}

func (o *IntrospectionOptions) check() error {
	if err := syntax.CheckIdentifier("Issuer", o.Issuer); err != nil {
		return err
	}
	switch {
	case o.Client.Issuer != "" && o.Client.Issuer != o.Issuer:
		return &IssuerError{Expected: o.Issuer, Got: o.Client.Issuer}
	case o.CacheTime > maxCacheTime:
		return fmt.Errorf("expected a CacheTime of at most %v", maxCacheTime)
	case o.Skew < 0 || o.Skew > maxSkew:
		return fmt.Errorf("expected a Skew of at most %v", maxSkew)
	}
	if err := o.Client.check(); err != nil {
		return fmt.Errorf("the Client: %w", err)
	}
	return nil
}

// Format prints a constant, so that neither credentials nor grants are printed.
func (v *introspection) Format(to fmt.State, _ rune) {
	_, _ = io.WriteString(to, "oauth.Introspection")
}

var errTooManyQueries = errors.New("introspection: too many concurrent queries")

// Verify verifies a token. The error is an [*InvalidTokenError], or says why the query
// failed.
func (v *introspection) Verify(ctx context.Context, token Secret, audience string) (*Grant, error) {
	if len(token) > maxBearerToken {
		return nil, &InvalidTokenError{Reason: "it is too long"}
	}
	key := tokenKey(sha256.Sum256([]byte(token + "\x00" + Secret(audience))))
	if cached, ok := v.lookUp(key, time.Now()); ok {
		return cached.grant, cached.err
	}
	return v.queries.do(ctx, string(key[:]), func(ctx context.Context) (*Grant, error) {
		waiting, cancel := context.WithTimeoutCause(ctx, queryWait, errTooManyQueries)
		defer cancel()
		if v.running.Acquire(waiting, 1) != nil {
			return nil, context.Cause(waiting)
		}
		defer v.running.Release(1)
		g, err := v.query(ctx, token, audience)
		v.cache(key, g, err, time.Now())
		return g, err
	})
}

// lookUp returns a cached result that is still valid.
func (v *introspection) lookUp(key tokenKey, now time.Time) (verification, bool) {
	for _, cache := range []*lru.Cache[tokenKey, verification]{v.valid, v.invalid} {
		if cached, ok := cache.Get(key); ok && now.Before(cached.until) {
			return cached, true
		}
	}
	return verification{}, false
}

// cache caches a result, at most until the token expires. It does not cache failures.
func (v *introspection) cache(key tokenKey, g *Grant, err error, now time.Time) {
	life := v.options.CacheTime
	if life < 0 {
		return
	}
	if _, ok := errors.AsType[*InvalidTokenError](err); ok {
		v.invalid.Add(key, verification{nil, err, now.Add(min(life, invalidTime))})
	}
	if err != nil {
		return
	}
	until := now.Add(life)
	if !g.Expires.IsZero() && g.Expires.Before(until) {
		until = g.Expires
	}
	v.valid.Add(key, verification{g, nil, until})
}

func (v *introspection) query(ctx context.Context, token Secret, audience string) (*Grant, error) {
	req, err := v.request(ctx, token)
	if err != nil {
		return nil, err
	}
	res, err := send(v.http, req)
	switch {
	case err != nil:
		return nil, fmt.Errorf("introspection: %w", err)
	case res.status != http.StatusOK:
		return nil, fmt.Errorf("introspection: expected status 200, got %d", res.status)
	}
	return v.parse(res.body, audience)
}

// request returns the query. RFC 7662, section 2.1.
func (v *introspection) request(ctx context.Context, token Secret) (*http.Request, error) {
	o := v.options
	params := url.Values{"token": {string(token)}, "token_type_hint": {"access_token"}}
	return o.Client.request(ctx, o.Endpoint, params, o.Client.Method, &serverMetadata{issuer: o.Issuer}, time.Now())
}

var errIntrospection = errors.New("introspection: the response does not follow RFC 7662, section 2.2")

// parse parses a response.
func (v *introspection) parse(body []byte, audience string) (*Grant, error) {
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, errIntrospection
	}
	switch active := string(members.Get("active")); {
	case active == "false":
		return nil, &InvalidTokenError{Reason: "its issuer says that it is not active"}
	case active != "true":
		return nil, errIntrospection
	}
	g, err := (&claims{members, body}).verify(v.options.Issuer, audience, v.options.Skew, true)
	if err == nil && g.Principal() == "" {
		return nil, &InvalidTokenError{Reason: "it names neither a subject nor a client"}
	}
	return g, err
}

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
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
)

// IntrospectionOptions configure an [Introspection].
type IntrospectionOptions struct {
	// Issuer is the authorization server. It is required; answers that name another one
	// are not valid.
	Issuer string
	// Endpoint is where it is asked. It is required.
	Endpoint string
	// Client is what the authorization server knows this resource by. Its ClientID is
	// required; its Method is client_secret_basic by default, or private_key_jwt if it
	// has a key. An Issuer in it must be the one above.
	Client Registration
	// CacheTime is how long an answer is good, at most until the token ends: so long may
	// a token that has been revoked still be good here. That a token is not valid is good
	// for 5 s at most. Default 30 s, at most 5 min; negative means that it is asked each time.
	CacheTime time.Duration
	// Skew is how far the clocks here and there may differ. Default 30 s, at most 5 min.
	Skew time.Duration
	// AllowLoopback admits this machine, also by http. It is for development.
	AllowLoopback bool
	// AllowNetworks lists networks that may be reached although they are not public. By
	// https, still.
	AllowNetworks []netip.Prefix
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
}

const (
	// DefaultCacheTime is the default of [IntrospectionOptions].CacheTime.
	DefaultCacheTime = 30 * time.Second
	maxCacheTime     = 5 * time.Minute
	// maxCached is how many answers are kept.
	maxCached = 10_000
	// maxRefused is how many tokens are remembered that are not valid, and refusedTime how
	// long each.
	maxRefused  = 1000
	refusedTime = 5 * time.Second
	// maxAsking is how many tokens are asked about at a time, and askingWait how long
	// others wait for that.
	maxAsking  = 64
	askingWait = 2 * time.Second
	// maxAnswerBody is how long an answer may be, in bytes.
	maxAnswerBody = 64 << 10
)

// An Introspection verifies tokens by asking the authorization server about them (RFC
// 7662). Answers are kept for a short time, those about tokens that are not valid for a
// shorter one. Requests with the same token share a question; when 64 questions are under
// way, others wait up to two seconds for that, and are refused then. Use
// [NewIntrospection].
type Introspection struct {
	options  *IntrospectionOptions // behind a pointer, for fmt not to print the secret
	guard    *netguard.Guard
	http     *http.Client
	asking   chan struct{}
	together flights[*Grant]
	grants   *answerCache[*Grant]
	refused  *answerCache[*InvalidTokenError]
}

var _ Verifier = (*Introspection)(nil)

// NewIntrospection returns a verifier. The error is about the options.
func NewIntrospection(opts *IntrospectionOptions) (*Introspection, error) {
	var o IntrospectionOptions
	if opts != nil {
		o = *opts
	}
	o.CacheTime = cmp.Or(o.CacheTime, DefaultCacheTime)
	o.Skew = cmp.Or(o.Skew, DefaultSkew)
	if o.Client.Method == "" {
		o.Client.Method = MethodBasic
		if o.Client.Key != nil {
			o.Client.Method = MethodPrivateKeyJWT
		}
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("oauth.NewIntrospection: %w", err)
	}
	v := &Introspection{
		options: &o, guard: guardFor(o.AllowLoopback, o.AllowNetworks, o.Resolver),
		asking: make(chan struct{}, maxAsking), grants: newAnswerCache[*Grant](maxCached), refused: newAnswerCache[*InvalidTokenError](maxRefused),
	}
	if err := v.guard.Check(o.Endpoint); err != nil {
		return nil, fmt.Errorf("oauth.NewIntrospection: %w", err)
	}
	v.http = v.guard.Client()
	v.http.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		return &URLError{URL: shown(req.URL), Reason: "the introspection endpoint redirects, and tokens do not go elsewhere"}
	}
	return v, nil
}

func (o *IntrospectionOptions) check() error {
	if err := checkIdentifier("Issuer", o.Issuer); err != nil {
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

// Format tells nothing of the client's credentials, nor of grants.
func (v *Introspection) Format(to fmt.State, _ rune) {
	_, _ = io.WriteString(to, "oauth.Introspection")
}

var errTooManyQuestions = errors.New("too many tokens are being asked about")

// Verify asks about a token. The error is an [*InvalidTokenError], or says why there is no
// answer.
func (v *Introspection) Verify(ctx context.Context, token Secret, audience string) (*Grant, error) {
	if len(token) > MaxBearerToken {
		return nil, &InvalidTokenError{Reason: "it is too long"}
	}
	key := sha256.Sum256([]byte(token + "\x00" + Secret(audience)))
	if g, ok := v.grants.find(key, time.Now()); ok {
		return g, nil
	}
	if refused, ok := v.refused.find(key, time.Now()); ok {
		return nil, refused
	}
	return v.together.share(ctx, string(key[:]), func(ctx context.Context) (*Grant, error) {
		leave, err := v.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		g, err := v.ask(ctx, token, audience)
		v.keep(key, g, err)
		return g, err
	})
}

// enter waits until a question may be asked.
func (v *Introspection) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-v.asking }
	select {
	case v.asking <- struct{}{}:
		return leave, nil
	default:
	}
	patience := time.NewTimer(askingWait)
	defer patience.Stop()
	select {
	case v.asking <- struct{}{}:
		return leave, nil
	case <-patience.C:
		return nil, errTooManyQuestions
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// keep keeps an answer, for no longer than the token is valid.
func (v *Introspection) keep(key [32]byte, g *Grant, err error) {
	now, life := time.Now(), v.options.CacheTime
	if life < 0 {
		return
	}
	if refused, ok := errors.AsType[*InvalidTokenError](err); ok {
		v.refused.keep(key, refused, now.Add(min(life, refusedTime)))
	}
	if err != nil {
		return
	}
	until := now.Add(life)
	if !g.Expires.IsZero() && g.Expires.Before(until) {
		until = g.Expires
	}
	v.grants.keep(key, g, until)
}

func (v *Introspection) ask(ctx context.Context, token Secret, audience string) (*Grant, error) {
	req, err := v.question(ctx, token)
	if err != nil {
		return nil, err
	}
	res, err := v.http.Do(req) // which checks where it goes
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		return nil, fmt.Errorf("introspection: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("introspection: expected status 200, got %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBody+1))
	if err == nil && len(body) > maxAnswerBody {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswerBody)
	}
	if err != nil {
		return nil, fmt.Errorf("introspection: %w", err)
	}
	return v.read(body, audience)
}

// question is the request. RFC 7662, section 2.1.
func (v *Introspection) question(ctx context.Context, token Secret) (*http.Request, error) {
	o := v.options
	params := url.Values{"token": {string(token)}, "token_type_hint": {"access_token"}}
	switch o.Client.Method {
	case MethodPrivateKeyJWT:
		if err := o.Client.assert(params, &serverMetadata{issuer: o.Issuer}, time.Now()); err != nil {
			return nil, err
		}
	case MethodPost:
		params.Set("client_id", o.Client.ClientID)
		params.Set("client_secret", string(o.Client.Secret))
	case MethodNone:
		params.Set("client_id", o.Client.ClientID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Endpoint, strings.NewReader(params.Encode()))
	if err != nil {
		return nil, errors.New("introspection: the endpoint is no URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if o.Client.Method == MethodBasic { // encoded as RFC 6749, section 2.3.1, has it
		req.SetBasicAuth(url.QueryEscape(o.Client.ClientID), url.QueryEscape(string(o.Client.Secret)))
	}
	return req, nil
}

var errAnswer = errors.New("introspection: the answer is not as RFC 7662, section 2.2, has it")

// read reads an answer.
func (v *Introspection) read(body []byte, audience string) (*Grant, error) {
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, errAnswer
	}
	switch active := string(members.Get("active")); {
	case active == "false":
		return nil, &InvalidTokenError{Reason: "its issuer does not know it, or not any more"}
	case active != "true":
		return nil, errAnswer
	}
	c := &claims{members, body}
	g, err := c.grant()
	if err != nil {
		return nil, err
	}
	if g.Issuer != "" && g.Issuer != v.options.Issuer {
		return nil, &InvalidTokenError{Reason: "it is of another issuer"}
	}
	g.Issuer = v.options.Issuer
	if ok, err := c.isFor(audience); err != nil {
		return nil, err
	} else if !ok {
		return nil, &InvalidTokenError{Reason: "it is for another audience"}
	}
	if g.Expires, err = c.times(time.Now(), v.options.Skew); err != nil {
		return nil, err
	}
	if g.Principal() == "" {
		return nil, &InvalidTokenError{Reason: "it names neither a subject nor a client"}
	}
	return g, nil
}

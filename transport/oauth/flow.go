package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// A Flow is a way to obtain a token: [*CodeFlow], [*SavedTokens], [*ClientCredentials],
// [*JWTBearer], [*TokenExchange] or [*EnterpriseManaged].
type Flow interface {
	// check returns an error if the flow is configured wrongly.
	check(opts *ClientOptions) error
	// token obtains a token. It returns an error of this package or of the network.
	token(ctx context.Context, request *tokenRequest) (*oauth2.Token, error)
}

// Names of RFC 7523, RFC 8693 and the draft of Identity Assertion JWT Authorization
// Grants. None of them is a secret.
const (
	grantJWTBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"     //nolint:gosec // see above
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" //nolint:gosec // see above
	typeIDJAG          = "urn:ietf:params:oauth:token-type:id-jag"
	typeAccessToken    = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // see above
)

// A CodeFlow lets a person log in with a browser: the authorization code grant of OAuth
// 2.1 with PKCE. It needs no registration at authorization servers that support Client ID
// Metadata Documents or dynamic registration. The zero value is ready to use.
type CodeFlow struct {
	// Receiver receives the authorization response. Default a [*LoopbackReceiver].
	Receiver Receiver
	// Open opens a URL in the person's browser. The URL is https, or http on this machine
	// with [ClientOptions].AllowLoopback. Open should not wait for the person. Default
	// [OpenBrowser].
	Open func(ctx context.Context, url string) error
	// Timeout is how long the person may take. Default 5 minutes.
	Timeout time.Duration
	// MaxLogins is how often one server may cause a login within [LoginWindow], whatever the
	// result. The next one fails with a [*LoginLimitError]: otherwise a server that accepts no
	// token would open the browser for each request. Calls of [Client.Login] are not counted.
	// Default 5; negative means no limit.
	MaxLogins int
}

func (f *CodeFlow) check(*ClientOptions) error { return nil }

func (f *CodeFlow) token(ctx context.Context, r *tokenRequest) (*oauth2.Token, error) {
	token, err := f.login(ctx, r)
	if !isCode(err, "invalid_client") && !isCode(err, "unauthorized_client") {
		return token, err
	}
	forgotten, storeErr := r.forgetRegistration(ctx, r.clientID)
	if storeErr != nil {
		return nil, storeErr
	}
	if !forgotten {
		return nil, err
	}
	return f.login(ctx, r)
}

// login lets the person log in once.
func (f *CodeFlow) login(ctx context.Context, r *tokenRequest) (*oauth2.Token, error) {
	if err := r.server.checkPKCE(r.client.options.AssumePKCE); err != nil {
		return nil, err
	}
	receiver, timeout := f.Receiver, f.Timeout
	if receiver == nil {
		receiver = &LoopbackReceiver{}
	}
	if timeout <= 0 {
		timeout = defaultLoginTimeout
	}
	saved, err := r.loadRegistration(ctx)
	if err != nil {
		return nil, err
	}
	previous := r.redirectURI
	if saved != nil {
		previous = saved.RedirectURI
	}
	state := rand.Text()
	listener, err := receiver.Listen(ctx, state, previous)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	r.redirectURI = listener.RedirectURI()
	registration, err := r.register(ctx)
	if err != nil {
		return nil, err
	}
	r.clientID = registration.ClientID
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errLoginTimeout)
	defer cancel()
	code, verifier, err := f.authorize(waiting, r, listener, state)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, registration, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {r.redirectURI},
	})
}

var errLoginTimeout = errors.New("the person did not log in before the timeout")

// authorize opens the authorization endpoint in the browser, and waits for the code.
func (f *CodeFlow) authorize(ctx context.Context, r *tokenRequest, listener CallbackListener, state string) (code, verifier string, err error) {
	verifier = oauth2.GenerateVerifier()
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	if r.sendsResource() {
		options = append(options, oauth2.SetAuthURLParam("resource", r.resource))
	}
	to, err := r.authorizationURL(oauth2.Config{ClientID: r.clientID, RedirectURL: r.redirectURI, Scopes: r.scopes}, state, options...)
	if err != nil {
		return "", "", err
	}
	if r.causedBy != nil {
		if err := r.causedBy.countLogin(cmp.Or(f.MaxLogins, defaultMaxLogins), r.client.options.Clock()); err != nil {
			return "", "", err
		}
	}
	open := f.Open
	if open == nil {
		open = OpenBrowser
	}
	if err := open(ctx, to); err != nil {
		return "", "", err
	}
	response, err := listener.Wait(ctx)
	if err != nil {
		return "", "", err
	}
	code, err = r.server.readAuthorization(response, state)
	return code, verifier, err
}

// authorizationURL returns the URL at which a person logs in.
func (r *tokenRequest) authorizationURL(config oauth2.Config, state string, options ...oauth2.AuthCodeOption) (string, error) {
	endpoint, err := browserURL(r.server.authorizationEndpoint, r.client.options.AllowLoopback)
	if err == nil {
		err = checkQuery(endpoint)
	}
	if err != nil {
		return "", err
	}
	config.Endpoint.AuthURL = r.server.authorizationEndpoint
	return config.AuthCodeURL(state, options...), nil
}

// checkQuery refuses an authorization endpoint whose query has parameters of an authorization
// request: the authorization server might prefer them to the client's parameters. RFC 6749,
// section 3.1; RFC 9101 for request and request_uri.
func checkQuery(endpoint *url.URL) error {
	query, err := url.ParseQuery(endpoint.RawQuery)
	if err != nil {
		return &URLError{URL: shown(endpoint), Reason: "its query is malformed"}
	}
	for name := range query {
		switch strings.ToLower(name) {
		case "response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "resource", "request", "request_uri":
			return &URLError{URL: shown(endpoint), Reason: "expected an authorization endpoint without the parameter " + quote(name)}
		}
	}
	return nil
}

// readAuthorization returns the code of an authorization response. It checks that the
// response is for the request with the state and from this server. RFC 6749, section
// 4.1.2, and RFC 9207, section 2.4.
func (m *serverMetadata) readAuthorization(response url.Values, state string) (string, error) {
	for _, name := range []string{"state", "iss", "code", "error"} {
		if len(response[name]) > 1 {
			return "", &StateError{}
		}
	}
	if subtle.ConstantTimeCompare([]byte(response.Get("state")), []byte(state)) != 1 {
		return "", &StateError{}
	}
	if issuer := response.Get("iss"); issuer != m.issuer && (response.Has("iss") || m.sendsIssuer) {
		return "", &IssuerError{Expected: m.issuer, Got: issuer} // checked first, because the error may be forged too
	}
	if code := response.Get("error"); code != "" {
		return "", &Error{Code: excerpt(code), Description: excerpt(response.Get("error_description"))}
	}
	code := response.Get("code")
	if code == "" || len(code) > maxToken {
		return "", &Error{Code: "invalid_answer", Description: "the response has neither a code nor an error"}
	}
	return code, nil
}

// SavedTokens uses the tokens of [ClientOptions].Store and refreshes them. It obtains no other
// tokens: when a server demands one, the error is [ErrLoginRequired]. It is for a program without a
// person, which shares the store with a program at which a person logs in with a [CodeFlow]. A
// token that the other program saves later is used, too.
type SavedTokens struct{}

// ErrLoginRequired says that no saved token can be used, and a person has to log in.
var ErrLoginRequired = errors.New("there is no saved token that the server accepts: a person has to log in")

func (*SavedTokens) check(*ClientOptions) error { return nil }

func (*SavedTokens) token(context.Context, *tokenRequest) (*oauth2.Token, error) {
	return nil, ErrLoginRequired
}

// ClientCredentials obtains tokens for the program itself, without a person: the client
// credentials grant (RFC 6749, section 4.4). It needs a [Registration] with a Secret or a
// Key.
type ClientCredentials struct{}

func (*ClientCredentials) check(opts *ClientOptions) error {
	if len(opts.Registrations) == 0 {
		return errors.New("oauth: ClientCredentials need one of ClientOptions.Registrations")
	}
	for i, registration := range opts.Registrations {
		if registration.Secret == "" && registration.Key == nil {
			return fmt.Errorf("oauth: Registrations[%d]: ClientCredentials need a Secret or a Key", i)
		}
	}
	return nil
}

func (*ClientCredentials) token(ctx context.Context, r *tokenRequest) (*oauth2.Token, error) {
	registration, err := r.requiredRegistration(ctx)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, registration, url.Values{"grant_type": {"client_credentials"}})
}

// A JWTBearer obtains tokens for a workload with a JWT of another issuer, such as the
// platform that runs the workload: workload identity federation with the JWT bearer grant
// (RFC 7523, section 2.1). A refusal is final.
type JWTBearer struct {
	// Assertion returns the workload's JWT, whose audience should be the issuer alone. It
	// is called for each token. Required.
	Assertion func(ctx context.Context, issuer string) (Secret, error)
	// Trust reports whether the assertion may be sent to an authorization server. Any MCP
	// server can name one, and it could use the assertion elsewhere. The issuers of
	// ClientOptions.Registrations are always trusted. Default: no others.
	Trust func(issuer string) bool
}

func (f *JWTBearer) check(*ClientOptions) error {
	if f.Assertion == nil {
		return errors.New("oauth: expected a JWTBearer with an Assertion")
	}
	return nil
}

func (f *JWTBearer) token(ctx context.Context, r *tokenRequest) (*oauth2.Token, error) {
	issuer := r.server.issuer
	registered := slices.ContainsFunc(r.client.options.Registrations, func(known Registration) bool { return known.Issuer != "" && sameIssuer(known.Issuer, issuer) })
	if !registered && (f.Trust == nil || !f.Trust(issuer)) {
		return nil, &RegistrationError{Issuer: issuer, Reason: "no assertion is sent to a server that neither ClientOptions.Registrations nor JWTBearer.Trust names"}
	}
	registration, err := r.configuredRegistration(ctx)
	if err != nil {
		return nil, err
	}
	if registration == nil {
		registration = &Registration{Issuer: issuer, Method: methodNone} // the assertion identifies the client
	}
	assertion, err := f.Assertion(ctx, issuer)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, registration, url.Values{"grant_type": {grantJWTBearer}, "assertion": {string(assertion)}})
}

// A TokenExchange obtains tokens for a person with another token of that person (RFC 8693), such as the one with which the person
// has called this program. It needs a [Registration] for each authorization server, with its Issuer: the token of the person is
// sent to no other, whatever MCP servers name.
type TokenExchange struct {
	// Subject returns the person's token. It is called for each token. Required.
	Subject func(ctx context.Context) (Secret, error)
	// SubjectType is the type of what Subject returns. Default
	// "urn:ietf:params:oauth:token-type:access_token".
	SubjectType string
}

func (f *TokenExchange) check(opts *ClientOptions) error {
	if f.Subject == nil {
		return errors.New("oauth: expected a TokenExchange with a Subject")
	}
	if len(opts.Registrations) == 0 || slices.ContainsFunc(opts.Registrations, func(r Registration) bool { return r.Issuer == "" }) {
		return errors.New("oauth: TokenExchange needs ClientOptions.Registrations, each with its Issuer")
	}
	return nil
}

func (f *TokenExchange) token(ctx context.Context, r *tokenRequest) (*oauth2.Token, error) {
	registration, err := r.requiredRegistration(ctx)
	if err != nil {
		return nil, err
	}
	subject, err := f.Subject(ctx)
	if err != nil {
		return nil, err
	}
	token, err := r.send(ctx, registration, url.Values{
		"grant_type": {grantTokenExchange}, "requested_token_type": {typeAccessToken},
		"subject_token": {string(subject)}, "subject_token_type": {cmp.Or(f.SubjectType, typeAccessToken)},
	})
	if err != nil {
		return nil, err
	}
	if issued, _ := token.Extra("issued_token_type").(string); issued != typeAccessToken {
		return nil, &AnswerError{Issuer: r.server.issuer, Err: errors.New("expected a token of the type " + typeAccessToken + ", got " + quote(issued))}
	}
	return token, nil
}

// EnterpriseManaged obtains tokens for a person who is already logged in at the company's
// identity provider, which decides what may be connected. The identity provider exchanges
// the person's ID token for an Identity Assertion JWT Authorization Grant (RFC 8693), and
// the authorization server exchanges that for a token (RFC 7523). It needs a
// [Registration] at the authorization server.
type EnterpriseManaged struct {
	// Issuer is the identity provider. Required.
	Issuer string
	// Client is the registration at the identity provider. Required. Its Issuer is empty or
	// the one above.
	Client Registration
	// Subject returns the person's ID token. It is called for each token. Required.
	Subject func(ctx context.Context) (Secret, error)
	// SubjectType is the type of what Subject returns. Default
	// "urn:ietf:params:oauth:token-type:id_token".
	SubjectType string
}

func (f *EnterpriseManaged) check(opts *ClientOptions) error {
	switch {
	case f.Issuer == "" || f.Subject == nil:
		return errors.New("oauth: expected an EnterpriseManaged with an Issuer and a Subject")
	case len(opts.Registrations) == 0:
		return errors.New("oauth: EnterpriseManaged needs one of ClientOptions.Registrations, for the authorization server")
	case f.Client.Issuer != "" && f.Client.Issuer != f.Issuer:
		return fmt.Errorf("oauth: the Client of EnterpriseManaged: %w", &IssuerError{Expected: f.Issuer, Got: f.Client.Issuer})
	}
	return f.Client.check()
}

func (f *EnterpriseManaged) token(ctx context.Context, r *tokenRequest) (*oauth2.Token, error) {
	registration, err := r.requiredRegistration(ctx)
	if err != nil {
		return nil, err
	}
	assertion, err := f.exchange(ctx, r)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, registration, url.Values{"grant_type": {grantJWTBearer}, "assertion": {assertion}})
}

// exchange obtains an assertion about the person for the authorization server.
func (f *EnterpriseManaged) exchange(ctx context.Context, r *tokenRequest) (string, error) {
	provider, err := r.client.authorizationServer(ctx, f.Issuer, false)
	if err != nil {
		return "", err
	}
	subject, err := f.Subject(ctx)
	if err != nil {
		return "", err
	}
	client := f.Client
	client.Issuer = provider.issuer
	token, err := r.sendTo(ctx, provider, &client, nil, r.params(url.Values{
		"grant_type": {grantTokenExchange}, "requested_token_type": {typeIDJAG}, "audience": {r.server.issuer},
		"subject_token": {string(subject)}, "subject_token_type": {cmp.Or(f.SubjectType, "urn:ietf:params:oauth:token-type:id_token")},
	}))
	if err != nil {
		return "", err
	}
	if issued, _ := token.Extra("issued_token_type").(string); issued != typeIDJAG {
		return "", &AnswerError{Issuer: f.Issuer, Err: errors.New("expected a grant of the type " + typeIDJAG + ", got " + quote(issued))}
	}
	return token.AccessToken, nil
}

package oauth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/peertext"
)

// A tokenRequest says which token is requested from which authorization server. A flow
// sends it with a grant.
type tokenRequest struct {
	client      *Client
	server      *serverMetadata
	resource    string
	scopes      []string
	key         *dpopKey     // nil if the token need not be bound to a key
	redirectURI string       // of the last login; CodeFlow changes it
	clientID    string       // set when the request is sent
	causedBy    *knownServer // the server whose challenge the request satisfies; nil for Client.Login
}

// params adds the resource and the scopes to the parameters of a grant.
func (r *tokenRequest) params(grant url.Values) url.Values {
	if r.resource != "" {
		grant.Set("resource", r.resource) // RFC 8707
	}
	if len(r.scopes) > 0 {
		grant.Set("scope", strings.Join(r.scopes, " "))
	}
	return grant
}

// send sends the request with a grant to the token endpoint.
func (r *tokenRequest) send(ctx context.Context, registration *Registration, grant url.Values) (*oauth2.Token, error) {
	return r.sendTo(ctx, r.server, registration, r.key, r.params(grant))
}

// sendTo sends parameters to the token endpoint of any authorization server. It sends them
// a second time if the server demands a nonce.
func (r *tokenRequest) sendTo(ctx context.Context, server *serverMetadata, registration *Registration, key *dpopKey, params url.Values) (*oauth2.Token, error) {
	r.clientID = registration.ClientID
	if registration.Issuer != "" && registration.Issuer != server.issuer {
		return nil, &IssuerError{Expected: registration.Issuer, Got: server.issuer}
	}
	config := &clientcredentials.Config{ClientID: registration.ClientID, TokenURL: server.tokenEndpoint, EndpointParams: params, AuthStyle: oauth2.AuthStyleInParams}
	method, err := registration.chooseMethod(server.authMethods)
	if err != nil {
		return nil, err
	}
	switch method {
	case methodBasic:
		config.AuthStyle, config.ClientSecret = oauth2.AuthStyleInHeader, string(registration.Secret)
	case methodPost:
		config.ClientSecret = string(registration.Secret)
	}
	for range 2 {
		if method == methodPrivateKeyJWT {
			if err := registration.addAssertion(params, server, r.client.options.Clock()); err != nil {
				return nil, err
			}
		}
		transport := &tokenTransport{client: r.client, key: key}
		ctx := context.WithValue(ctx, oauth2.HTTPClient, transport.httpClient())
		var token *oauth2.Token
		if token, err = config.Token(ctx); err == nil {
			return token, nil
		}
		err = tokenEndpointError(err, server, params, registration)
		if !isCode(err, codeUseNonce) || !transport.gotNonce { // RFC 9449, section 8
			break
		}
	}
	return nil, err
}

// refresh requests the next token with a refresh token. The request names no scopes: it is
// for all that were granted, which may be fewer than were requested. RFC 6749, section 6.
func (r *tokenRequest) refresh(ctx context.Context, registration *Registration, old *credentials) (*credentials, error) {
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.RefreshToken}, "resource": {old.Resource}}
	token, err := r.sendTo(ctx, r.server, registration, r.key, params)
	if err != nil {
		return nil, err
	}
	next, err := newCredentials(r, token)
	if err != nil {
		return nil, &AnswerError{Issuer: r.server.issuer, Err: err}
	}
	if _, ok := token.Extra("scope").(string); !ok {
		next.Granted = old.Granted
	}
	return next, nil
}

// tokenEndpointError converts an error of package oauth2. It removes the secrets that were
// sent and that the response may repeat.
func tokenEndpointError(err error, server *serverMetadata, params url.Values, registration *Registration) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			return outer.Err
		}
		return &AnswerError{Issuer: server.issuer, Err: errors.New("the response does not follow RFC 6749, section 5")}
	}
	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(registration.ClientID) + ":" + url.QueryEscape(string(registration.Secret))))
	secrets := []string{string(registration.Secret), basic}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "assertion", "subject_token", "client_assertion"} {
		secrets = append(secrets, params.Get(name))
	}
	return &Error{
		Code: excerptWithout(refused.ErrorCode, secrets...), Description: excerptWithout(refused.ErrorDescription, secrets...), Status: refused.Response.StatusCode,
	}
}

// excerptWithout returns the beginning of a peer's text without secrets, which it may repeat.
func excerptWithout(text string, secrets ...string) string {
	forms := make([]string, 0, 2*len(secrets))
	for _, secret := range secrets {
		forms = append(forms, secret, url.QueryEscape(secret))
	}
	var b strings.Builder
	w := peertext.NewRedactingWriter(&b, forms)
	_, _ = io.WriteString(w, text) // a strings.Builder never fails
	_ = w.Close()
	return excerpt(b.String())
}

// A tokenTransport sends one token request, with a DPoP proof if there is a key.
type tokenTransport struct {
	client   *Client
	key      *dpopKey
	gotNonce bool // the response has a nonce for the next proof
}

func (t *tokenTransport) httpClient() *http.Client {
	client := withoutRedirects(t.client.http, "the token endpoint redirects there, and secrets are not sent to other URLs")
	client.Transport = t
	return client
}

// withoutRedirects returns a copy of a client that refuses redirects for a reason. The error does not show the
// path, because it may repeat secrets.
func withoutRedirects(client *http.Client, reason string) *http.Client {
	with := *client
	with.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		return &URLError{URL: req.URL.Scheme + "://" + req.URL.Host, Reason: reason}
	}
	return &with
}

// RoundTrip sends a request and stores the nonce of the response. It reads the whole body,
// so that a broken connection is a network error and not a malformed response.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "application/json")
	origin := httpclient.Origin(req.URL)
	if t.key != nil {
		nonce, _ := t.client.nonces.Get(origin)
		proof, err := t.key.prove(t.client.options.Clock(), req.Method, req.URL, nonce, "")
		if err != nil {
			return nil, err
		}
		req.Header.Set("DPoP", proof)
	}
	res, err := t.client.http.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if nonce := nonceOf(res.Header); t.key != nil && nonce != "" {
		t.client.nonces.Add(origin, nonce)
		t.gotNonce = true
	}
	return res, nil
}

// revokeTimeout bounds the revocation of a client's tokens, which needs up to three requests.
const revokeTimeout = 15 * time.Second

// revoke revokes the tokens of deleted credentials. The error is a [*RevocationError].
func (c *Client) revoke(ctx context.Context, old *credentials) error {
	ctx, cancel := context.WithTimeoutCause(ctx, revokeTimeout, errRevokeTimeout)
	defer cancel()
	err := c.revokeTokens(ctx, old)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &RevocationError{Issuer: old.Issuer, Err: err}
	}
	return nil
}

var errRevokeTimeout = errors.New("the authorization server did not answer in time")

func (c *Client) revokeTokens(ctx context.Context, old *credentials) error {
	as, err := c.authorizationServer(ctx, old.Issuer, old.Legacy)
	if err != nil || as.revocationEndpoint == "" {
		return err
	}
	if err := c.guard.Check(as.revocationEndpoint); err != nil { // only here: a login does not need it
		return &MetadataError{URL: as.url, Reason: "the member revocation_endpoint", Err: err}
	}
	request := &tokenRequest{client: c, server: as}
	registration, err := request.existingRegistration(ctx)
	switch {
	case err != nil:
		return err
	case registration == nil:
		registration = &Registration{Issuer: as.issuer, ClientID: old.ClientID, Method: methodNone}
	case registration.ClientID != old.ClientID:
		return errRegistrationGone
	}
	// The refresh token first: with it, the server can also revoke its access tokens.
	err = request.revoke(ctx, registration, old.RefreshToken, "refresh_token")
	return cmp.Or(err, request.revoke(ctx, registration, old.AccessToken, "access_token"))
}

// revoke revokes one token, if there is one. A server that does not support the type of token
// is no error. RFC 7009, section 2.
func (r *tokenRequest) revoke(ctx context.Context, registration *Registration, token, kind string) error {
	if token == "" {
		return nil
	}
	method, err := registration.chooseMethod(r.server.authMethods)
	if err != nil {
		return err
	}
	form := url.Values{"token": {token}, "token_type_hint": {kind}}
	req, err := registration.request(ctx, r.server.revocationEndpoint, form, method, r.server, r.client.options.Clock())
	if err != nil {
		return err
	}
	res, err := send(withoutRedirects(r.client.http, "the revocation endpoint redirects there, and tokens are not sent to other URLs"), req)
	if err != nil || res.status == http.StatusOK {
		return err
	}
	refused := &Error{Status: res.status}
	if d, err := parseDocument(shown(req.URL), res.body); err == nil {
		d.get("error", &refused.Code)
	}
	if refused.Code == "unsupported_token_type" {
		return nil
	}
	refused.Code = excerptWithout(refused.Code, token, string(registration.Secret))
	return fmt.Errorf("the %s: %w", kind, refused)
}

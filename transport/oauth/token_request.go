package oauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
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

// sendsResource reports whether requests have the parameter resource.
func (r *tokenRequest) sendsResource() bool {
	return r.resource != "" && !r.client.options.NoResource
}

// params adds the resource and the scopes to the parameters of a grant.
func (r *tokenRequest) params(grant url.Values) url.Values {
	if r.sendsResource() {
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
	if registration.Issuer != "" && !sameIssuer(registration.Issuer, server.issuer) {
		return nil, &IssuerError{Expected: registration.Issuer, Got: server.issuer}
	}
	var err error
	for range 2 {
		var gotNonce bool
		var token *oauth2.Token
		if token, gotNonce, err = r.sendOnce(ctx, server, registration, key, params); err == nil {
			return token, nil
		}
		if !isCode(err, codeUseNonce) || !gotNonce { // RFC 9449, section 8
			break
		}
	}
	return nil, err
}

// sendOnce sends parameters to the token endpoint, with a DPoP proof if there is a key. It stores
// the nonce of the response.
func (r *tokenRequest) sendOnce(ctx context.Context, server *serverMetadata, registration *Registration, key *dpopKey, params url.Values) (token *oauth2.Token, gotNonce bool, err error) {
	now, method := r.client.options.Clock(), registration.chooseMethod(server.authMethods)
	if method == methodPrivateKeyJWT {
		params.Set("client_id", registration.ClientID)
	}
	req, err := registration.request(ctx, server.tokenEndpoint, params, method, server, now)
	if err != nil {
		return nil, false, err
	}
	origin := httpclient.Origin(req.URL)
	if key != nil {
		nonce, _ := r.client.nonces.Get(origin)
		proof, err := key.prove(now, req.Method, req.URL, nonce, "")
		if err != nil {
			return nil, false, err
		}
		req.Header.Set("DPoP", proof)
	}
	res, err := send(withoutRedirects(r.client.http, "the token endpoint redirects there, and secrets are not sent to other URLs"), req)
	if err != nil {
		return nil, false, err
	}
	if nonce := nonceOf(res.header); key != nil && nonce != "" {
		r.client.nonces.Add(origin, nonce)
		gotNonce = true
	}
	token, err = readTokenResponse(res, server, params, registration)
	if token != nil && token.RefreshToken == "" {
		token.RefreshToken = params.Get("refresh_token") // the old one remains valid: RFC 6749, section 6
	}
	return token, gotNonce, err
}

// readTokenResponse parses the response of a token endpoint. RFC 6749, sections 5.1 and 5.2. Errors are
// without the secrets that were sent, which the response may repeat.
func readTokenResponse(res response, server *serverMetadata, params url.Values, registration *Registration) (*oauth2.Token, error) {
	d, err := parseTokenResponse(server.tokenEndpoint, res)
	var code, description string
	if err == nil {
		d.get("error", &code)
		d.get("error_description", &description)
	}
	if res.status/100 != 2 || code != "" {
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(registration.ClientID) + ":" + url.QueryEscape(string(registration.Secret))))
		secrets := []string{string(registration.Secret), basic}
		for _, name := range []string{"code", "code_verifier", "refresh_token", "assertion", "subject_token", "client_assertion"} {
			secrets = append(secrets, params.Get(name))
		}
		return nil, &Error{Code: excerptWithout(code, secrets...), Description: excerptWithout(description, secrets...), Status: res.status}
	}
	token := &oauth2.Token{}
	extra := make(map[string]any)
	if err == nil {
		d.get("access_token", &token.AccessToken)
		d.get("token_type", &token.TokenType)
		d.get("refresh_token", &token.RefreshToken)
		err = d.err
		for _, name := range []string{"scope", "id_token", "issued_token_type"} {
			if raw := d.members.Get(name); jsonscan.KindOf(raw) == jsonscan.String {
				extra[name] = jsonscan.Unquote(raw)
			}
		}
	}
	if err != nil || token.AccessToken == "" {
		return nil, &AnswerError{Issuer: server.issuer, Err: errors.New("the response does not follow RFC 6749, section 5")}
	}
	if life := d.number("expires_in"); life > 0 { // not known otherwise
		token.Expiry = time.Now().Add(time.Duration(min(life, math.MaxInt32) * float64(time.Second)))
	}
	return token.WithExtra(extra), nil
}

// parseTokenResponse parses a JSON object, or a form, as some servers send it.
func parseTokenResponse(at string, res response) (*document, error) {
	d, err := parseDocument(at, res.body)
	kind, _, _ := mime.ParseMediaType(res.header.Get("Content-Type"))
	if err == nil || kind != "application/x-www-form-urlencoded" && kind != "text/plain" {
		return d, err
	}
	form, err := url.ParseQuery(string(res.body))
	if err != nil {
		return nil, err
	}
	members := make(map[string]string, len(form))
	for name := range form {
		members[name] = form.Get(name)
	}
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return parseDocument(at, body)
}

// refresh requests the next token with a refresh token. The request names no scopes: it is
// for all that were granted, which may be fewer than were requested. RFC 6749, section 6.
func (r *tokenRequest) refresh(ctx context.Context, registration *Registration, old *credentials) (*credentials, error) {
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.RefreshToken}}
	if r.sendsResource() {
		params.Set("resource", old.Resource)
	}
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

// withoutRedirects returns a copy of a client that refuses redirects for a reason. The error does not show the
// path, because it may repeat secrets.
func withoutRedirects(client *http.Client, reason string) *http.Client {
	with := *client
	with.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		return &URLError{URL: req.URL.Scheme + "://" + req.URL.Host, Reason: reason}
	}
	return &with
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
	err = cmp.Or(err, request.revoke(ctx, registration, old.AccessToken, "access_token"))
	if isCode(err, "invalid_client") {
		_, storeErr := request.forgetRegistration(ctx, registration.ClientID)
		return cmp.Or(storeErr, err)
	}
	return err
}

// revoke revokes one token, if there is one. A server that does not support the type of token
// is no error. RFC 7009, section 2.
func (r *tokenRequest) revoke(ctx context.Context, registration *Registration, token, kind string) error {
	if token == "" {
		return nil
	}
	form := url.Values{"token": {token}, "token_type_hint": {kind}}
	req, err := registration.request(ctx, r.server.revocationEndpoint, form, registration.chooseMethod(r.server.authMethods), r.server, r.client.options.Clock())
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

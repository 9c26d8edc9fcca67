package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/token"
)

// A proxyClient is the content of a client ID.
type proxyClient struct {
	Name      string   `json:"n,omitempty"`
	Redirects []string `json:"r"`
}

// A proxyGrant is the content of a token or code of a proxy.
type proxyGrant struct {
	Login   string    `json:"l"` // random ID of the login
	Client  string    `json:"c"` // hash of the client ID
	Subject string    `json:"s"`
	Scopes  []string  `json:"p,omitempty"`
	Expires time.Time `json:"e"`           // of an access token, or of the login
	Uses    int       `json:"u,omitempty"` // the code and refresh tokens of the login used before

	Refresh   string `json:"f,omitempty"` // the provider's refresh token, not in an access token
	Redirect  string `json:"r,omitempty"` // only in a code
	Challenge string `json:"h,omitempty"` // of PKCE, only in a code
}

// Purposes of sealed values.
const (
	sealedClient  = "client"
	sealedCode    = "code"
	sealedAccess  = "access"
	sealedRefresh = "refresh"
)

// Verify verifies an access token of the proxy. [Grant].ClientID is a hash of the client ID. The
// error is an [*InvalidTokenError].
func (p *Proxy) Verify(_ context.Context, text Secret, audience string) (*Grant, error) {
	var g proxyGrant
	err := p.open(string(text), &g, sealedAccess, audience)
	switch {
	case errors.Is(err, token.ErrExpired):
		return nil, errExpired
	case err != nil:
		return nil, &InvalidTokenError{Reason: "it was not issued by this server for this audience"}
	case p.hasEnded(g.Login):
		return nil, &InvalidTokenError{Reason: "it was revoked"}
	}
	return &Grant{Issuer: p.options.Issuer, Subject: g.Subject, ClientID: g.Client, Scopes: g.Scopes, Expires: g.Expires, Claims: json.RawMessage("{}")}, nil
}

// respondOAuth sends a JSON response that must not be cached.
func respondOAuth(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // the client has left
}

// refuseOAuth sends an error response. RFC 6749, section 5.2; RFC 7591, section 3.2.2.
func refuseOAuth(w http.ResponseWriter, status int, code, description string) {
	body := map[string]string{"error": code}
	if description != "" {
		body["error_description"] = description
	}
	respondOAuth(w, status, body)
}

// register is the registration endpoint. It stores nothing: the client ID contains the
// registration. All clients are public. RFC 7591, section 3.
func (p *Proxy) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuseOAuth(w, http.StatusRequestEntityTooLarge, "invalid_client_metadata", "the request is too long")
		return
	}
	var client proxyClient
	var grants []string
	d, err := parseDocument("", body)
	if err == nil {
		d.get("client_name", &client.Name)
		d.get("redirect_uris", &client.Redirects)
		d.get("grant_types", &grants)
		err = d.err
	}
	client.Name = clientName(client.Name)
	switch {
	case err != nil:
		refuseOAuth(w, http.StatusBadRequest, "invalid_client_metadata", "expected a JSON object as in RFC 7591, section 2")
		return
	case grants != nil && !slices.Contains(grants, "authorization_code"):
		refuseOAuth(w, http.StatusBadRequest, "invalid_client_metadata", "expected the grant type authorization_code")
		return
	case len(client.Redirects) == 0 || len(client.Redirects) > maxRedirects || slices.ContainsFunc(client.Redirects, func(uri string) bool { return !p.isRedirect(uri) }):
		refuseOAuth(w, http.StatusBadRequest, "invalid_redirect_uri", "expected 1 to 10 redirect URIs of at most 512 bytes that are https, or http on a loopback host, without a fragment")
		return
	}
	id, err := p.seal(client, clientLife, sealedClient)
	if err != nil {
		refuseOAuth(w, http.StatusBadRequest, "invalid_client_metadata", "the registration is too long")
		return
	}
	respondOAuth(w, http.StatusCreated, map[string]any{
		"client_id": id, "client_id_issued_at": time.Now().Unix(), "client_name": client.Name, "redirect_uris": client.Redirects,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": MethodNone,
	})
}

// clientName returns the name of a client as the consent page shows it.
func clientName(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) { // also characters that change the direction of the text
			return -1
		}
		return c
	}, name)
	return strings.ToValidUTF8(name[:min(len(name), maxClientName)], "")
}

// isRedirect reports whether a redirect URI may be registered. RFC 8252, section 7.
func (p *Proxy) isRedirect(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxRedirect || !isHeaderText(text) || strings.Contains(text, "#") || u.User != nil {
		return false
	}
	switch u.Scheme {
	case "https":
		return u.Hostname() != ""
	case "http":
		return netguard.IsLoopback(u.Hostname())
	}
	return slices.Contains(p.options.RedirectSchemes, u.Scheme)
}

// serveToken is the token endpoint. RFC 6749, section 3.2.
func (p *Proxy) serveToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuseOAuth(w, http.StatusBadRequest, codeInvalidRequest, "expected a form")
		return
	}
	form := r.PostForm
	if p.open(form.Get("client_id"), &proxyClient{}, sealedClient) != nil {
		refuseOAuth(w, http.StatusUnauthorized, "invalid_client", "the client is not registered")
		return
	}
	if form.Has("resource") && !p.isResource(form.Get("resource")) {
		refuseOAuth(w, http.StatusBadRequest, "invalid_target", "the tokens of this server are for "+p.options.Resource)
		return
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		p.redeemCode(w, r, form)
	case "refresh_token":
		p.refresh(w, r, form)
	default:
		refuseOAuth(w, http.StatusBadRequest, "unsupported_grant_type", "")
	}
}

func (p *Proxy) isResource(text string) bool {
	if text == p.options.Resource {
		return true
	}
	u, err := url.Parse(text)
	own, ownErr := url.Parse(p.options.Resource)
	return err == nil && ownErr == nil && u.RawQuery == "" && canonical(u) == canonical(own)
}

func (p *Proxy) redeemCode(w http.ResponseWriter, r *http.Request, form url.Values) {
	var g proxyGrant
	err := p.open(form.Get("code"), &g, sealedCode)
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if err != nil || g.Client != clientHash(form.Get("client_id")) || g.Redirect != form.Get("redirect_uri") ||
		subtle.ConstantTimeCompare([]byte(challenge), []byte(g.Challenge)) != 1 || p.hasEnded(g.Login) {
		refuseOAuth(w, http.StatusBadRequest, "invalid_grant", "")
		return
	}
	// RFC 6749, section 4.1.2: a second use revokes the tokens of the first.
	if _, err := p.spend(r.Context(), &g); err != nil {
		p.refuseSpent(w, r, &g, err, "the code was used before")
		return
	}
	g.Redirect, g.Challenge = "", ""
	p.issue(w, &g, g.Scopes)
}

// refuseSpent refuses a code or token after the error of spend. A second use ends the login.
func (p *Proxy) refuseSpent(w http.ResponseWriter, r *http.Request, g *proxyGrant, err error, description string) {
	if errors.Is(err, errSpent) {
		err = p.end(r.Context(), g)
	}
	if err != nil {
		p.refuseWithoutStore(w, err)
		return
	}
	refuseOAuth(w, http.StatusBadRequest, "invalid_grant", description)
}

// refuseWithoutStore refuses a request because the store fails.
func (p *Proxy) refuseWithoutStore(w http.ResponseWriter, err error) {
	p.options.Logger.Error("oauth: the store of logins fails", "error", err)
	w.Header().Set("Retry-After", "5")
	refuseOAuth(w, http.StatusServiceUnavailable, "temporarily_unavailable", "the server cannot check now whether the login has ended")
}

// refresh requests a token from the provider, so that a person without access there any more loses
// it here too. The provider's response is used up once the request is sent, so it is awaited
// even if the client has left.
func (p *Proxy) refresh(w http.ResponseWriter, r *http.Request, form url.Values) {
	var g proxyGrant
	if err := p.open(form.Get("refresh_token"), &g, sealedRefresh); err != nil || g.Client != clientHash(form.Get("client_id")) || p.hasEnded(g.Login) {
		refuseOAuth(w, http.StatusBadRequest, "invalid_grant", "")
		return
	}
	scopes := g.Scopes
	if form.Has("scope") {
		scopes = splitScope(form.Get("scope"))
		if !containsAll(g.Scopes, scopes) {
			refuseOAuth(w, http.StatusBadRequest, "invalid_scope", "")
			return
		}
	}
	restore, err := p.spend(r.Context(), &g)
	if err != nil { // RFC 9700, section 4.14.2
		p.refuseSpent(w, r, &g, err, "the refresh token was used before")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), refreshTimeout)
	defer cancel()
	next, err := p.requestToken(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}})
	switch {
	case err == nil:
		if next.RefreshToken != "" && len(next.RefreshToken) <= maxProviderRefresh {
			g.Refresh = next.RefreshToken
		}
		p.issue(w, &g, scopes)
	case endsLogin(err):
		p.options.Logger.Info("oauth: the provider refuses to refresh a login", "subject", quote(g.Subject), "error", err)
		if err := p.end(ctx, &g); err != nil { // the refresh token cannot be used again in any case
			p.options.Logger.Error("oauth: the store of logins fails", "error", err)
		}
		refuseOAuth(w, http.StatusBadRequest, "invalid_grant", "the login has ended at the identity provider")
	default:
		restore() // the client may try again
		p.options.Logger.Error("oauth: the provider cannot refresh a login", "error", err)
		w.Header().Set("Retry-After", "5")
		refuseOAuth(w, http.StatusServiceUnavailable, "temporarily_unavailable", "the identity provider cannot refresh the login now")
	}
}

// endsLogin reports whether the provider's error means that the person has to log in again.
//
// These codes say so: invalid_grant (RFC 6749, section 5.2), access_denied (RFC 6749, section 4.1.2.1),
// bad_refresh_token of GitHub, and interaction_required, login_required and consent_required (OpenID
// Connect Core 1.0, section 3.1.2.6). An error with any other code, or with none, may be about the
// proxy, its configuration or the provider. The login then lasts until that is corrected.
func endsLogin(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	if !ok || !isFinal(err) {
		return false
	}
	switch refused.Code {
	case "invalid_grant", "bad_refresh_token", "access_denied", "interaction_required", "login_required", "consent_required":
		return true
	}
	return false
}

// requestToken sends a token request to the provider.
func (p *Proxy) requestToken(ctx context.Context, params url.Values) (*oauth2.Token, error) {
	as, err := p.authorizationServer(ctx)
	if err != nil {
		return nil, err
	}
	return (&tokenRequest{client: p.client, server: as}).sendTo(ctx, as, &p.options.Client, nil, params)
}

// issue sends a token response.
func (p *Proxy) issue(w http.ResponseWriter, g *proxyGrant, scopes []string) {
	now := time.Now()
	life := min(p.options.TokenLife, g.Expires.Sub(now))
	access := proxyGrant{Login: g.Login, Client: g.Client, Subject: g.Subject, Scopes: scopes, Expires: now.Add(life)}
	text, err := p.seal(access, life, sealedAccess, p.options.Resource)
	if err != nil || len(text) > MaxBearerToken || life <= 0 {
		p.options.Logger.Error("oauth: a token cannot be issued", "length", len(text), "error", err)
		refuseOAuth(w, http.StatusBadRequest, "invalid_grant", "a token cannot be issued")
		return
	}
	body := map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": int(life / time.Second), "scope": strings.Join(scopes, " ")}
	if g.Refresh != "" {
		if body["refresh_token"], err = p.seal(g, g.Expires.Sub(now), sealedRefresh); err != nil {
			delete(body, "refresh_token")
		}
	}
	respondOAuth(w, http.StatusOK, body)
}

// revoke is the revocation endpoint. It ends the login of a token, here and at the provider. It
// ignores tokens of other clients. RFC 7009, section 2.
func (p *Proxy) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuseOAuth(w, http.StatusBadRequest, codeInvalidRequest, "expected a form")
		return
	}
	text, client := r.PostForm.Get("token"), clientHash(r.PostForm.Get("client_id"))
	var g proxyGrant
	err := p.open(text, &g, sealedRefresh)
	if err != nil {
		err = p.open(text, &g, sealedAccess, p.options.Resource)
	}
	if err == nil && g.Client == client && !p.hasEnded(g.Login) {
		if err := p.end(r.Context(), &g); err != nil {
			p.refuseWithoutStore(w, err) // RFC 7009, section 2.2.1
			return
		}
		p.revokeAtProvider(r.Context(), g.Refresh)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// revokeAtProvider revokes the provider's refresh token, if the provider supports that.
func (p *Proxy) revokeAtProvider(ctx context.Context, refreshToken string) {
	if refreshToken == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	as, err := p.authorizationServer(ctx)
	if err == nil && as.revocationEndpoint != "" {
		err = (&tokenRequest{client: p.client, server: as}).revoke(ctx, &p.options.Client, refreshToken, "refresh_token")
	}
	if err != nil {
		p.options.Logger.Warn("oauth: the provider did not confirm a revocation", "error", err)
	}
}

// verifyIdentity verifies the ID token of a token response, if there is one. OpenID Connect
// Core, section 3.1.3.7.
func (p *Proxy) verifyIdentity(ctx context.Context, response *oauth2.Token, nonce string) (*ProviderLogin, error) {
	login := &ProviderLogin{AccessToken: Secret(response.AccessToken)}
	signed, ok := response.Extra("id_token").(string)
	if !ok {
		return login, nil
	}
	grant, err := p.identity.Verify(ctx, Secret(signed), p.options.Client.ClientID)
	if err != nil {
		return nil, err
	}
	claims, err := jsonscan.ReadObject(grant.Claims)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(text(claims.Get("nonce"))), []byte(nonce)) != 1 {
		return nil, errors.New("the ID token is for another login: its nonce differs")
	}
	if party := text(claims.Get("azp")); party != "" && party != p.options.Client.ClientID {
		return nil, errors.New("the ID token is for another client: its claim azp differs")
	}
	login.Subject, login.Claims = grant.Subject, grant.Claims
	return login, nil
}

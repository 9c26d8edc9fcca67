package proxy

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
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// maxBearerToken is the maximum length in bytes of a token that oauth.Protect accepts.
const maxBearerToken = 8 << 10

// A registration is the content of a client ID.
type registration struct {
	Name      string   `json:"n,omitempty"`
	Redirects []string `json:"r"`
}

// A grant is the content of a token or code of a proxy.
type grant struct {
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

// Verify verifies an access token of the proxy. [oauth.Grant].ClientID is a hash of the client ID. The
// error is an [*oauth.InvalidTokenError].
func (p *Proxy) Verify(_ context.Context, text oauth.Secret, audience string) (*oauth.Grant, error) {
	var g grant
	err := p.open(string(text), &g, sealedAccess, audience)
	switch {
	case errors.Is(err, token.ErrExpired):
		return nil, &oauth.InvalidTokenError{Reason: "it has expired"}
	case err != nil:
		return nil, &oauth.InvalidTokenError{Reason: "it was not issued by this server for this audience"}
	case p.hasEnded(g.Login):
		return nil, &oauth.InvalidTokenError{Reason: "it was revoked"}
	}
	return &oauth.Grant{Issuer: p.options.Issuer, Subject: g.Subject, ClientID: g.Client, Scopes: g.Scopes, Expires: g.Expires, Claims: json.RawMessage("{}")}, nil
}

// respond sends a JSON response that must not be cached.
func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // the client has left
}

// refuse sends an error response. RFC 6749, section 5.2; RFC 7591, section 3.2.2.
func refuse(w http.ResponseWriter, status int, code, description string) {
	body := map[string]string{"error": code}
	if description != "" {
		body["error_description"] = description
	}
	respond(w, status, body)
}

// register is the registration endpoint. It stores nothing: the client ID contains the
// registration. All clients are public. RFC 7591, section 3.
func (p *Proxy) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "invalid_client_metadata", "the request is too long")
		return
	}
	var client registration
	var grants []string
	members, err := jsonscan.ReadObject(body)
	for name, into := range map[string]any{"client_name": &client.Name, "redirect_uris": &client.Redirects, "grant_types": &grants} {
		if raw := members.Get(name); raw != nil && err == nil {
			err = json.Unmarshal(raw, into)
		}
	}
	client.Name = clientName(client.Name)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "expected a JSON object as in RFC 7591, section 2")
		return
	case grants != nil && !slices.Contains(grants, "authorization_code"):
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "expected the grant type authorization_code")
		return
	case len(client.Redirects) == 0 || len(client.Redirects) > maxRedirects || slices.ContainsFunc(client.Redirects, func(uri string) bool { return !p.isRedirect(uri) }):
		refuse(w, http.StatusBadRequest, "invalid_redirect_uri", "expected 1 to 10 redirect URIs of at most 512 bytes that are https, or http on a loopback host, without a fragment")
		return
	}
	id, err := p.seal(client, clientLife, sealedClient)
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "the registration is too long")
		return
	}
	respond(w, http.StatusCreated, map[string]any{
		"client_id": id, "client_id_issued_at": time.Now().Unix(), "client_name": client.Name, "redirect_uris": client.Redirects,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
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
	if err != nil || len(text) > maxRedirect || !syntax.IsWord(text) || strings.Contains(text, "#") || u.User != nil {
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
		refuse(w, http.StatusBadRequest, "invalid_request", "expected a form")
		return
	}
	form := r.PostForm
	if p.open(form.Get("client_id"), &registration{}, sealedClient) != nil {
		refuse(w, http.StatusUnauthorized, "invalid_client", "the client is not registered")
		return
	}
	if form.Has("resource") && !p.isResource(form.Get("resource")) {
		refuse(w, http.StatusBadRequest, "invalid_target", "the tokens of this server are for "+p.options.Resource)
		return
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		p.redeemCode(w, r, form)
	case "refresh_token":
		p.refresh(w, r, form)
	default:
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "")
	}
}

func (p *Proxy) isResource(text string) bool {
	if text == p.options.Resource {
		return true
	}
	u, err := url.Parse(text)
	own, ownErr := url.Parse(p.options.Resource)
	return err == nil && ownErr == nil && u.RawQuery == "" && syntax.Canonical(u) == syntax.Canonical(own)
}

func (p *Proxy) redeemCode(w http.ResponseWriter, r *http.Request, form url.Values) {
	var g grant
	err := p.open(form.Get("code"), &g, sealedCode)
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if err != nil || g.Client != clientHash(form.Get("client_id")) || g.Redirect != form.Get("redirect_uri") ||
		subtle.ConstantTimeCompare([]byte(challenge), []byte(g.Challenge)) != 1 || p.hasEnded(g.Login) {
		refuse(w, http.StatusBadRequest, "invalid_grant", "")
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
func (p *Proxy) refuseSpent(w http.ResponseWriter, r *http.Request, g *grant, err error, description string) {
	if errors.Is(err, errSpent) {
		err = p.end(r.Context(), g)
	}
	if err != nil {
		p.refuseWithoutStore(w, err)
		return
	}
	refuse(w, http.StatusBadRequest, "invalid_grant", description)
}

// refuseWithoutStore refuses a request because the store fails.
func (p *Proxy) refuseWithoutStore(w http.ResponseWriter, err error) {
	p.options.Logger.Error("oauth: the store of logins fails", "error", err)
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "the server cannot check now whether the login has ended")
}

// refresh requests a token from the provider, so that a person without access there any more loses
// it here too. The provider's response is used up once the request is sent, so it is awaited
// even if the client has left.
func (p *Proxy) refresh(w http.ResponseWriter, r *http.Request, form url.Values) {
	var g grant
	if err := p.open(form.Get("refresh_token"), &g, sealedRefresh); err != nil || g.Client != clientHash(form.Get("client_id")) || p.hasEnded(g.Login) {
		refuse(w, http.StatusBadRequest, "invalid_grant", "")
		return
	}
	scopes := g.Scopes
	if form.Has("scope") {
		scopes = syntax.SplitScope(form.Get("scope"))
		if slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(g.Scopes, scope) }) {
			refuse(w, http.StatusBadRequest, "invalid_scope", "")
			return
		}
	}
	restore, err := p.spend(r.Context(), &g)
	if err != nil { // RFC 9700, section 4.14.2
		p.refuseSpent(w, r, &g, err, "the refresh token was used before")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), providerTimeout)
	defer cancel()
	next, err := p.provider.Refresh(ctx, g.Refresh)
	switch {
	case err == nil:
		if next.RefreshToken != "" && len(next.RefreshToken) <= maxProviderRefresh {
			g.Refresh = next.RefreshToken
		}
		p.issue(w, &g, scopes)
	case errors.Is(err, oauth.ErrLoginEnded):
		p.options.Logger.Info("oauth: the provider refuses to refresh a login", "subject", jsonscan.Quote(g.Subject), "error", err)
		if err := p.end(ctx, &g); err != nil { // the refresh token cannot be used again in any case
			p.options.Logger.Error("oauth: the store of logins fails", "error", err)
		}
		refuse(w, http.StatusBadRequest, "invalid_grant", "the login has ended at the identity provider")
	default:
		restore() // the client may try again
		p.options.Logger.Error("oauth: the provider cannot refresh a login", "error", err)
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "the identity provider cannot refresh the login now")
	}
}

// issue sends a token response.
func (p *Proxy) issue(w http.ResponseWriter, g *grant, scopes []string) {
	now := time.Now()
	life := min(p.options.TokenLife, g.Expires.Sub(now))
	access := grant{Login: g.Login, Client: g.Client, Subject: g.Subject, Scopes: scopes, Expires: now.Add(life)}
	text, err := p.seal(access, life, sealedAccess, p.options.Resource)
	if err != nil || len(text) > maxBearerToken || life <= 0 {
		p.options.Logger.Error("oauth: a token cannot be issued", "length", len(text), "error", err)
		refuse(w, http.StatusBadRequest, "invalid_grant", "a token cannot be issued")
		return
	}
	body := map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": int(life / time.Second), "scope": strings.Join(scopes, " ")}
	if g.Refresh != "" {
		if body["refresh_token"], err = p.seal(g, g.Expires.Sub(now), sealedRefresh); err != nil {
			delete(body, "refresh_token")
		}
	}
	respond(w, http.StatusOK, body)
}

// revoke is the revocation endpoint. It ends the login of a token, here and at the provider. It
// ignores tokens of other clients. RFC 7009, section 2.
func (p *Proxy) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "expected a form")
		return
	}
	text, client := r.PostForm.Get("token"), clientHash(r.PostForm.Get("client_id"))
	var g grant
	err := p.open(text, &g, sealedRefresh)
	if err != nil {
		err = p.open(text, &g, sealedAccess, p.options.Resource)
	}
	if err == nil && g.Client == client && !p.hasEnded(g.Login) {
		if err := p.end(r.Context(), &g); err != nil {
			p.refuseWithoutStore(w, err) // RFC 7009, section 2.2.1
			return
		}
		if g.Refresh == "" {
			return
		}
		if err := p.provider.Revoke(context.WithoutCancel(r.Context()), g.Refresh); err != nil {
			p.options.Logger.Warn("oauth: the provider did not confirm a revocation", "error", err)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// verifyIdentity verifies the ID token of a token response, if there is one. OpenID Connect
// Core, section 3.1.3.7.
func (p *Proxy) verifyIdentity(ctx context.Context, response *oauth2.Token, nonce string) (*Login, error) {
	login := &Login{AccessToken: oauth.Secret(response.AccessToken)}
	identity, err := p.provider.Identity(ctx, response, nonce)
	if err != nil {
		return nil, err
	}
	if identity == nil {
		return login, nil
	}
	login.Subject, login.Claims = identity.Subject, identity.Claims
	return login, nil
}

package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// A proxyRequest is an authorization request of a client.
type proxyRequest struct {
	Client    string   `json:"c"` // hash of the client ID
	Redirect  string   `json:"r"`
	State     string   `json:"s,omitempty"`
	Challenge string   `json:"h"`
	Scopes    []string `json:"p,omitempty"`
}

// A proxyLogin is the state of a login at the provider.
type proxyLogin struct {
	proxyRequest
	Verifier string `json:"v"` // of PKCE at the provider
	Nonce    string `json:"n"` // of the ID token
}

const (
	sealedRequest = "request"
	sealedLogin   = "login"
	// maxLoginCookie is the maximum length of a cookie's value. Browsers allow 4096 bytes for a
	// cookie.
	maxLoginCookie = 3800
)

// authorize is the authorization endpoint. GET shows the consent page, and POST is its form.
func (p *Proxy) authorize(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		p.showConsent(w, r)
	case http.MethodPost:
		p.decide(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// showConsent checks an authorization request and shows the consent page. It sets no state of
// a login. Errors about the client or its redirect URI are not redirected: RFC 6749, section
// 4.1.2.1.
func (p *Proxy) showConsent(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || slices.ContainsFunc([]string{"client_id", "redirect_uri", "response_type", "state", "scope", "code_challenge", "code_challenge_method", "resource"}, func(name string) bool { return len(query[name]) > 1 }) {
		p.showError(w, http.StatusBadRequest, "The request of the application is malformed.")
		return
	}
	var client proxyClient
	if p.open(query.Get("client_id"), &client, sealedClient) != nil {
		p.showError(w, http.StatusBadRequest, "The application is not registered here, or was registered too long ago. It has to register again.")
		return
	}
	request := proxyRequest{
		Client: clientHash(query.Get("client_id")), Redirect: query.Get("redirect_uri"), State: query.Get("state"), Challenge: query.Get("code_challenge"),
	}
	if !slices.Contains(client.Redirects, request.Redirect) {
		p.showError(w, http.StatusBadRequest, "The application has not registered the address to which it wants to send you.")
		return
	}
	code, description := p.checkRequest(query, &request)
	if code != "" {
		p.returnToClient(w, r, &request, url.Values{"error": {code}, "error_description": {description}})
		return
	}
	browser := p.browserOf(r)
	if browser == "" {
		browser = rand.Text()
	}
	p.setCookie(w, "browser", browser, consentLife)
	sealed, err := p.seal(request, consentLife, sealedRequest, browser)
	if err != nil {
		p.returnToClient(w, r, &request, url.Values{"error": {codeInvalidRequest}, "error_description": {"the request is too long"}})
		return
	}
	p.showPage(w, http.StatusOK, &consentPage{Client: client.Name, Service: p.options.Name, Provider: p.options.Provider, Redirect: request.Redirect, Scopes: request.Scopes, Request: sealed})
}

// checkRequest returns an error code if an authorization request is not valid. RFC 6749,
// section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2.
func (p *Proxy) checkRequest(query url.Values, request *proxyRequest) (code, description string) {
	if len(request.State) > maxClientState {
		request.State = ""
		return codeInvalidRequest, "expected a state of at most 1024 bytes"
	}
	switch {
	case query.Get("response_type") != "code":
		return "unsupported_response_type", "expected the response_type code"
	case query.Get("code_challenge_method") != "S256" || len(request.Challenge) != 43:
		return codeInvalidRequest, "expected a code_challenge with the method S256"
	case query.Has("resource") && !p.isResource(query.Get("resource")):
		return "invalid_target", "the tokens of this server are for " + p.options.Resource
	}
	if !query.Has("scope") {
		request.Scopes = p.options.Scopes
		return "", ""
	}
	for _, scope := range splitScope(query.Get("scope")) {
		if slices.Contains(p.options.Scopes, scope) { // others are not granted: RFC 6749, section 3.3
			request.Scopes = append(request.Scopes, scope)
		}
	}
	return "", ""
}

// decide continues after the person has decided on the consent page. The form is accepted only
// from the browser for which the page was made.
func (p *Proxy) decide(w http.ResponseWriter, r *http.Request) {
	if p.origin.Check(r) != nil || r.ParseForm() != nil {
		p.showError(w, http.StatusForbidden, "The form did not come from this site.")
		return
	}
	var login proxyLogin
	browser := p.browserOf(r)
	if browser == "" || p.open(r.PostForm.Get("request"), &login.proxyRequest, sealedRequest, browser) != nil {
		p.showError(w, http.StatusForbidden, "The page was open for too long, or in another browser. Start again in the application.")
		return
	}
	if r.PostForm.Get("decision") != "allow" {
		p.returnToClient(w, r, &login.proxyRequest, url.Values{"error": {"access_denied"}})
		return
	}
	as, err := p.authorizationServer(r.Context())
	if err == nil {
		var endpoint *url.URL
		if endpoint, err = browserURL(as.authorizationEndpoint, p.options.AllowLoopback); err == nil {
			err = checkQuery(endpoint)
		}
	}
	if err != nil {
		p.options.Logger.Error("oauth: the provider has no usable metadata or authorization endpoint", "error", err)
		p.returnToClient(w, r, &login.proxyRequest, url.Values{"error": {"temporarily_unavailable"}})
		return
	}
	state := rand.Text()
	login.Verifier, login.Nonce = oauth2.GenerateVerifier(), rand.Text()
	sealed, err := p.seal(login, providerLife, sealedLogin, state)
	if err != nil || len(sealed) > maxLoginCookie {
		p.returnToClient(w, r, &login.proxyRequest, url.Values{"error": {codeInvalidRequest}, "error_description": {"the request is too long"}})
		return
	}
	p.setCookie(w, loginCookie(state), sealed, providerLife)
	config := oauth2.Config{
		ClientID: p.options.Client.ClientID, RedirectURL: p.callbackURL(), Scopes: p.options.ProviderScopes, Endpoint: oauth2.Endpoint{AuthURL: as.authorizationEndpoint},
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(login.Verifier), oauth2.SetAuthURLParam("nonce", login.Nonce)}
	for name, values := range p.options.ProviderParams {
		options = append(options, oauth2.SetAuthURLParam(name, strings.Join(values, " ")))
	}
	p.redirect(w, r, config.AuthCodeURL(state, options...))
}

func (p *Proxy) callbackURL() string { return p.options.Issuer + "/callback" }

// callback receives the authorization response of the provider.
func (p *Proxy) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	state := query.Get("state")
	var login proxyLogin
	if err == nil {
		err = p.openLogin(r, state, &login)
	}
	if err == nil {
		if known, _ := p.states.ContainsOrAdd(hashOf(state), struct{}{}); known {
			err = &StateError{}
		}
	}
	if err != nil {
		p.showError(w, http.StatusForbidden, "The login was not started in this browser, has taken too long, or is over. Start again in the application.")
		return
	}
	p.setCookie(w, loginCookie(state), "", -1)
	code, err := p.logIn(r.Context(), query, state, &login)
	if err != nil {
		p.options.Logger.Info("oauth: a login has failed", "error", err)
		result := "access_denied"
		if _, refused := errors.AsType[*loginRefusedError](err); !refused && !isCode(err, "access_denied") {
			result = "server_error"
		}
		p.returnToClient(w, r, &login.proxyRequest, url.Values{"error": {result}})
		return
	}
	p.returnToClient(w, r, &login.proxyRequest, url.Values{"code": {code}})
}

// openLogin opens the cookie of a login.
func (p *Proxy) openLogin(r *http.Request, state string, login *proxyLogin) error {
	if len(state) != len(rand.Text()) {
		return &StateError{}
	}
	cookie, err := r.Cookie(p.cookieName(loginCookie(state)))
	if err != nil {
		return err
	}
	return p.open(cookie.Value, login, sealedLogin, state)
}

// A loginRefusedError says that [ProxyOptions].Admit has refused a login.
type loginRefusedError struct{ err error }

func (e *loginRefusedError) Error() string { return "refused: " + e.err.Error() }
func (e *loginRefusedError) Unwrap() error { return e.err }

// logIn returns a code for the client. The response is that of the provider.
func (p *Proxy) logIn(ctx context.Context, response url.Values, state string, login *proxyLogin) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	as, err := p.authorizationServer(ctx)
	if err != nil {
		return "", err
	}
	providerCode, err := as.readAuthorization(response, state)
	if err != nil {
		return "", err
	}
	issued, err := p.requestToken(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {providerCode}, "code_verifier": {login.Verifier}, "redirect_uri": {p.callbackURL()},
	})
	if err != nil {
		return "", err
	}
	person, err := p.verifyIdentity(ctx, issued, login.Nonce)
	if err != nil {
		return "", err
	}
	person.Scopes = slices.Clone(login.Scopes)
	if admit := p.options.Admit; admit != nil {
		if err := admit(ctx, person); err != nil {
			return "", &loginRefusedError{err}
		}
	}
	if person.Subject == "" || len(person.Subject) > maxClaim {
		return "", errNoSubject
	}
	g := proxyGrant{
		Login: rand.Text(), Client: login.Client, Subject: person.Subject, Expires: time.Now().Add(p.options.LoginLife),
		Redirect: login.Redirect, Challenge: login.Challenge,
		Scopes: slices.DeleteFunc(person.Scopes, func(scope string) bool { return !slices.Contains(login.Scopes, scope) }),
	}
	if len(issued.RefreshToken) <= maxProviderRefresh {
		g.Refresh = issued.RefreshToken
	}
	return p.seal(g, codeLife, sealedCode)
}

var errNoSubject = errors.New("the provider issued no ID token, and ProxyOptions.Admit set no Subject")

// returnToClient sends the browser to the redirect URI of a request, which is registered. RFC
// 6749, section 4.1.2; RFC 9207.
func (p *Proxy) returnToClient(w http.ResponseWriter, r *http.Request, request *proxyRequest, response url.Values) {
	u, err := url.Parse(request.Redirect)
	if err != nil {
		p.showError(w, http.StatusBadRequest, "The address of the application is malformed.")
		return
	}
	if request.State != "" {
		response.Set("state", request.State)
	}
	response.Set("iss", p.options.Issuer)
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += response.Encode()
	p.redirect(w, r, u.String())
}

func (p *Proxy) redirect(w http.ResponseWriter, r *http.Request, to string) {
	p.secureHeader(w.Header())
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// cookieName returns the name of a cookie. With the prefix, browsers accept the cookie only from
// this host over https: RFC 6265bis, section 4.1.3.2.
func (p *Proxy) cookieName(name string) string {
	if p.secure {
		return "__Host-mcp-" + name
	}
	return "mcp-" + name
}

// loginCookie returns the name of the cookie of a login, so that several logins can run in one
// browser.
func loginCookie(state string) string { return "login-" + state[:8] }

// setCookie sets a cookie. A negative life deletes it.
func (p *Proxy) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without Secure only if the issuer is this machine over http
		Name: p.cookieName(name), Value: value, Path: "/", MaxAge: int(max(life, -time.Second) / time.Second), HttpOnly: true, Secure: p.secure, SameSite: http.SameSiteLaxMode,
	})
}

// browserOf returns the random ID of a browser, "" if it has none.
func (p *Proxy) browserOf(r *http.Request) string {
	cookie, err := r.Cookie(p.cookieName("browser"))
	if err != nil || len(cookie.Value) != len(rand.Text()) {
		return ""
	}
	return cookie.Value
}

// A consentPage is the content of the consent page, or of an error page.
type consentPage struct {
	Client, Service, Provider, Redirect string
	Scopes                              []string
	Request                             string // sealed
	Error                               string
}

// consentTemplate is the template of a consentPage.
const consentTemplate = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Service}}</title>
{{if .Error}}<h1>The login cannot continue</h1>
<p>{{.Error}}</p>
{{else}}<h1>Allow access to {{.Service}}?</h1>
<p>An application that calls itself <strong>{{or .Client "(no name)"}}</strong> asks for access to {{.Service}} with your account at {{.Provider}}.</p>
{{if .Scopes}}<p>It asks for:</p>
<ul>{{range .Scopes}}<li>{{.}}</li>{{end}}</ul>
{{end}}<p>The result is sent to <strong>{{.Redirect}}</strong></p>
<p>Any application can use any name. Continue only if you have just started this login yourself.</p>
<form method="post" action="authorize">
<input type="hidden" name="request" value="{{.Request}}">
<button name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Cancel</button>
</form>
{{end}}</html>
`

func (p *Proxy) showError(w http.ResponseWriter, status int, text string) {
	p.showPage(w, status, &consentPage{Service: p.options.Name, Error: text})
}

func (p *Proxy) showPage(w http.ResponseWriter, status int, page *consentPage) {
	p.secureHeader(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = p.page.Execute(w, page) // the person has left
}

// secureHeader sets headers that prevent framing, scripts and caching. The policy does not
// restrict where the form leads: browsers apply that to the redirects that follow, too.
func (p *Proxy) secureHeader(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // the form needs its origin
	header.Set("Cache-Control", "no-store")
}

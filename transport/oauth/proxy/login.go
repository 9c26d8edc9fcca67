package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// A authorizationRequest is an authorization request of a client.
type authorizationRequest struct {
	Client    string   `json:"c"` // hash of the client ID
	Redirect  string   `json:"r"`
	State     string   `json:"s,omitempty"`
	Challenge string   `json:"h"`
	Scopes    []string `json:"p,omitempty"`
}

// A pendingLogin is the state of a login at the provider.
type pendingLogin struct {
	authorizationRequest
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
// a login. It redirects no error: anyone may register a redirect URI, so a redirect before the
// person has agreed would make the proxy an open redirector. RFC 9700, section 4.11.2.
func (p *Proxy) showConsent(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || slices.ContainsFunc([]string{"client_id", "redirect_uri", "response_type", "state", "scope", "code_challenge", "code_challenge_method", "resource"}, func(name string) bool { return len(query[name]) > 1 }) {
		p.showError(w, "The request of the application is malformed.")
		return
	}
	var client registration
	if p.open(query.Get("client_id"), &client, sealedClient) != nil {
		p.showError(w, "The application is not registered here, or was registered too long ago. It has to register again.")
		return
	}
	request := authorizationRequest{
		Client: clientHash(query.Get("client_id")), Redirect: query.Get("redirect_uri"), State: query.Get("state"), Challenge: query.Get("code_challenge"),
	}
	if !slices.Contains(client.Redirects, request.Redirect) || !p.isRedirect(request.Redirect) {
		p.showError(w, "The application has not registered the address to which it wants to send you.")
		return
	}
	if expected := p.checkRequest(query, &request); expected != "" {
		p.showError(w, "The request of the application is not valid: expected "+expected+".")
		return
	}
	browser := p.browserOf(r)
	if browser == "" {
		browser = rand.Text()
	}
	p.setCookie(w, "browser", browser, consentLife)
	sealed, err := p.seal(request, consentLife, sealedRequest, browser)
	if err != nil {
		p.showError(w, "The request of the application is too long.")
		return
	}
	p.showPage(w, http.StatusOK, &consentPage{Client: client.Name, Service: p.options.Name, Provider: p.options.Provider, Redirect: request.Redirect, Scopes: request.Scopes, Request: sealed})
}

// checkRequest fills in the request. It returns what it expected if the query is not valid, else "".
// RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2.
func (p *Proxy) checkRequest(query url.Values, request *authorizationRequest) (expected string) {
	switch {
	case len(request.State) > maxClientState:
		return "a state of at most 1024 bytes"
	case query.Get("response_type") != "code":
		return "the response_type code"
	case query.Get("code_challenge_method") != "S256" || len(request.Challenge) != 43:
		return "a code_challenge with the method S256"
	case query.Has("resource") && !p.isResource(query.Get("resource")):
		return "the resource " + p.options.Resource
	}
	if !query.Has("scope") {
		request.Scopes = p.options.Scopes
		return ""
	}
	for _, scope := range syntax.SplitScope(query.Get("scope")) {
		if slices.Contains(p.options.Scopes, scope) { // others are not granted: RFC 6749, section 3.3
			request.Scopes = append(request.Scopes, scope)
		}
	}
	return ""
}

// decide continues after the person has decided on the consent page. The form is accepted only
// from the browser for which the page was made. Errors after the person has agreed go to the
// redirect URI. RFC 6749, section 4.1.2.1.
func (p *Proxy) decide(w http.ResponseWriter, r *http.Request) {
	if p.origin.Check(r) != nil || r.ParseForm() != nil {
		p.showError(w, "The form did not come from this site.")
		return
	}
	var login pendingLogin
	browser := p.browserOf(r)
	if browser == "" || p.open(r.PostForm.Get("request"), &login.authorizationRequest, sealedRequest, browser) != nil {
		p.showError(w, "The page was open for too long, or in another browser. Start again in the application.")
		return
	}
	if r.PostForm.Get("decision") != "allow" {
		p.showCanceled(w, &login.authorizationRequest)
		return
	}
	state := rand.Text()
	login.Verifier, login.Nonce = oauth2.GenerateVerifier(), rand.Text()
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(login.Verifier), oauth2.SetAuthURLParam("nonce", login.Nonce)}
	for name, values := range p.options.ProviderParams {
		options = append(options, oauth2.SetAuthURLParam(name, strings.Join(values, " ")))
	}
	to, err := p.provider.AuthorizationURL(r.Context(), oauth2.Config{RedirectURL: p.callbackURL(), Scopes: p.options.ProviderScopes}, state, options...)
	if err != nil {
		p.options.Logger.Error("oauth: the provider has no usable metadata or authorization endpoint", "error", err)
		p.returnToClient(w, r, &login.authorizationRequest, url.Values{"error": {"temporarily_unavailable"}})
		return
	}
	sealed, err := p.seal(login, providerLife, sealedLogin, state)
	if err != nil || len(sealed) > maxLoginCookie {
		p.returnToClient(w, r, &login.authorizationRequest, url.Values{"error": {"invalid_request"}, "error_description": {"the request is too long"}})
		return
	}
	p.setCookie(w, loginCookie(state), sealed, providerLife)
	p.redirect(w, r, to)
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
	var login pendingLogin
	ok := err == nil && p.openLogin(r, state, &login)
	if ok {
		known, _ := p.states.ContainsOrAdd(hashOf(state), struct{}{})
		ok = !known
	}
	if !ok {
		p.showError(w, "The login was not started in this browser, has taken too long, or is over. Start again in the application.")
		return
	}
	p.setCookie(w, loginCookie(state), "", -1)
	code, err := p.logIn(r.Context(), query, state, &login)
	if err != nil {
		p.options.Logger.Info("oauth: a login has failed", "error", err)
		result := "server_error"
		if refused, ok := errors.AsType[*oauth.Error](err); errors.Is(err, errNotAdmitted) || ok && refused.Code == "access_denied" {
			result = "access_denied"
		}
		p.returnToClient(w, r, &login.authorizationRequest, url.Values{"error": {result}})
		return
	}
	p.returnToClient(w, r, &login.authorizationRequest, url.Values{"code": {code}})
}

// openLogin opens the cookie of a login, and reports whether there is one.
func (p *Proxy) openLogin(r *http.Request, state string, login *pendingLogin) bool {
	if len(state) != len(rand.Text()) {
		return false
	}
	cookie, err := r.Cookie(p.cookieName(loginCookie(state)))
	return err == nil && p.open(cookie.Value, login, sealedLogin, state) == nil
}

// errNotAdmitted says that [Options].Admit has refused a login.
var errNotAdmitted = errors.New("refused")

// logIn returns a code for the client. response is the authorization response of the provider.
func (p *Proxy) logIn(ctx context.Context, response url.Values, state string, login *pendingLogin) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	issued, err := p.provider.Exchange(ctx, response, state, login.Verifier, p.callbackURL())
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
			return "", fmt.Errorf("%w: %w", errNotAdmitted, err)
		}
	}
	if person.Subject == "" || len(person.Subject) > maxSubject {
		return "", errNoSubject
	}
	g := grant{
		Login: rand.Text(), Client: login.Client, Subject: person.Subject, Expires: time.Now().Add(p.options.LoginLife),
		Redirect: login.Redirect, Challenge: login.Challenge,
		Scopes: slices.DeleteFunc(person.Scopes, func(scope string) bool { return !slices.Contains(login.Scopes, scope) }),
	}
	if len(issued.RefreshToken) <= maxProviderRefresh {
		g.Refresh = issued.RefreshToken
	}
	return p.seal(g, codeLife, sealedCode)
}

var errNoSubject = errors.New("the provider issued no ID token, and Options.Admit set no Subject")

// returnToClient sends the browser to the redirect URI of a request to which the person has
// agreed.
func (p *Proxy) returnToClient(w http.ResponseWriter, r *http.Request, request *authorizationRequest, response url.Values) {
	to, err := p.responseURL(request, response)
	if err != nil {
		p.showError(w, "The address of the application is malformed.")
		return
	}
	p.redirect(w, r, to)
}

// responseURL returns the redirect URI of a request with a response in its query. RFC 6749,
// section 4.1.2; RFC 9207.
func (p *Proxy) responseURL(request *authorizationRequest, response url.Values) (string, error) {
	u, err := url.Parse(request.Redirect)
	if err != nil {
		return "", err
	}
	if request.State != "" {
		response.Set("state", request.State)
	}
	response.Set("iss", p.options.Issuer)
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += response.Encode()
	return u.String(), nil
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
	Return                              template.URL // a link to the application on an error page; "" if there is none
}

// consentTemplate is the template of a consentPage.
const consentTemplate = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Service}}</title>
{{if .Error}}<h1>The login cannot continue</h1>
<p>{{.Error}}</p>
{{if .Return}}<p>Only if you trust the application at <strong>{{.Redirect}}</strong>: <a href="{{.Return}}">go back to it</a></p>
{{end}}{{else}}<h1>Allow access to {{.Service}}?</h1>
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

// showError shows a page that says why a login cannot continue.
func (p *Proxy) showError(w http.ResponseWriter, text string) {
	p.showPage(w, http.StatusBadRequest, &consentPage{Service: p.options.Name, Error: text})
}

// showCanceled shows a page after the person has not agreed. It links to the application instead
// of sending the browser there: the person may have canceled because of its address.
func (p *Proxy) showCanceled(w http.ResponseWriter, request *authorizationRequest) {
	page := &consentPage{Service: p.options.Name, Redirect: request.Redirect, Error: "You have not allowed access. You can close this window."}
	if to, err := p.responseURL(request, url.Values{"error": {"access_denied"}}); err == nil {
		page.Return = template.URL(to) //nolint:gosec // isRedirect has checked its scheme
	}
	p.showPage(w, http.StatusBadRequest, page)
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

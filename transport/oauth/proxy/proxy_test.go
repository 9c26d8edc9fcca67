package proxy_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
)

// A proxied is a protected endpoint behind a proxy, and the identity provider.
type proxied struct {
	*identityProvider
	t        testing.TB
	web      *httptest.Server
	proxy    *proxy.Proxy
	resource string
	issuer   string
}

func newProxied(t testing.TB, change func(*proxy.Options)) *proxied {
	web := httptest.NewUnstartedServer(nil)
	at := "http://" + web.Listener.Addr().String()
	p := &proxied{t: t, web: web, resource: at + "/mcp", issuer: at + "/oauth"}
	p.identityProvider = newIdentityProvider(t, &oauthtest.Options{Subject: "ada", NoRegistration: true, Clients: []oauthtest.Client{
		{ID: "proxy", Secret: "upstream-secret", RedirectURIs: []string{p.issuer + "/callback"}},
	}})
	opts := &proxy.Options{
		Issuer: p.issuer, Resource: p.resource, Name: "Notes", Provider: p.identityProvider.url,
		Client: oauth.Registration{ClientID: "proxy", Secret: "upstream-secret"}, Scopes: []string{"notes", "erase"},
		RedirectSchemes: []string{"com.example.app"}, AllowLoopback: true, Logger: quiet(),
	}
	if change != nil {
		change(opts)
	}
	var err error
	if p.proxy, err = proxy.New(opts); err != nil {
		t.Fatal(err)
	}
	handler, err := oauth.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, oauth.FromContext(r.Context()).Principal())
	}), &oauth.ProtectOptions{Resource: p.resource, AuthorizationServers: []string{p.issuer}, Verifier: p.proxy, Scopes: []string{"notes"}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = p.proxy.Wrap(handler)
	web.Start()
	t.Cleanup(web.Close)
	return p
}

// A browser keeps cookies.
type browser struct {
	t      testing.TB
	client *http.Client
}

// newBrowser returns a browser that stops before URLs with a prefix.
func newBrowser(t testing.TB, stop string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if stop != "" && strings.HasPrefix(r.URL.String(), stop) {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

var hiddenRequest = regexp.MustCompile(`name="request" value="([^"]+)"`)

// open opens a URL and returns the response and the page.
func (b *browser) open(at string) (*http.Response, string) {
	b.t.Helper()
	res, err := b.client.Get(at)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, bodyOf(b.t, res)
}

// decide sends the form of a consent page, and returns the response without its page.
func (b *browser) decide(at, page, decision string, header http.Header) *http.Response {
	b.t.Helper()
	res, _ := b.submit(at, page, decision, header)
	return res
}

// submit sends the form of a consent page, and returns the response and the page.
func (b *browser) submit(at, page, decision string, header http.Header) (*http.Response, string) {
	b.t.Helper()
	match := hiddenRequest.FindStringSubmatch(page)
	if match == nil {
		b.t.Fatalf("there is no form:\n%s", page)
	}
	form := url.Values{"request": {html.UnescapeString(match[1])}, "decision": {decision}}
	req, err := http.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, bodyOf(b.t, res)
}

// agree is the Open function of a CodeFlow: a person who agrees.
func (p *proxied) agree(_ context.Context, at string) error {
	b := newBrowser(p.t, "")
	_, page := b.open(at)
	b.decide(p.issuer+"/authorize", page, "allow", nil)
	return nil
}

const (
	clientRedirect = "https://app.example/back"
	clientVerifier = "a-verifier-of-at-least-forty-three-characters-1"
)

// register registers a client and returns its ID.
func (p *proxied) register(body string) string {
	p.t.Helper()
	status, answer := p.post("register", "application/json", body)
	id, _ := answer["client_id"].(string)
	if status != http.StatusCreated || id == "" {
		p.t.Fatalf("got %d, %v", status, answer)
	}
	return id
}

func (p *proxied) post(endpoint, kind, body string) (int, map[string]any) {
	p.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(p.issuer+"/"+endpoint, kind, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	var answer map[string]any
	_ = json.Unmarshal([]byte(bodyOf(p.t, res)), &answer)
	return res.StatusCode, answer
}

// token sends a token request.
func (p *proxied) token(form url.Values) (int, map[string]any) {
	p.t.Helper()
	return p.post("token", "application/x-www-form-urlencoded", form.Encode())
}

func (p *proxied) registered() string {
	return p.register(`{"client_name":"An app","redirect_uris":["` + clientRedirect + `"]}`)
}

// authorizeURL returns an authorization request, with changes. "" deletes a parameter.
func (p *proxied) authorizeURL(id string, changes map[string]string) string {
	sum := sha256.Sum256([]byte(clientVerifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {clientRedirect}, "state": {"client-state"}, "scope": {"notes"},
		"resource": {p.resource}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for name, value := range changes {
		query.Set(name, value)
		if value == "" {
			query.Del(name)
		}
	}
	return p.issuer + "/authorize?" + query.Encode()
}

// login logs in and returns the token request for the code.
func (p *proxied) login(id string) url.Values {
	p.t.Helper()
	b := newBrowser(p.t, clientRedirect)
	_, page := b.open(p.authorizeURL(id, nil))
	back := location(p.t, b.decide(p.issuer+"/authorize", page, "allow", nil))
	if back.Get("code") == "" || back.Get("state") != "client-state" || back.Get("iss") != p.issuer {
		p.t.Fatalf("got %v", back)
	}
	return url.Values{"grant_type": {"authorization_code"}, "client_id": {id}, "code": {back.Get("code")}, "code_verifier": {clientVerifier}, "redirect_uri": {clientRedirect}}
}

func location(t testing.TB, res *http.Response) url.Values {
	t.Helper()
	u, err := res.Location()
	if err != nil {
		t.Fatalf("status %d: %v", res.StatusCode, err)
	}
	return u.Query()
}

// do sends a request to a handler.
func do(h http.Handler, method, path, body string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Result()
}

// call calls the protected endpoint.
func (p *proxied) call(token any) (int, string) {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodPost, p.resource, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", fmt.Sprint("Bearer ", token))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, bodyOf(p.t, res)
}

// A client of package oauth registers, logs in, refreshes and logs out.
func TestLogin(t *testing.T) {
	p := newProxied(t, nil)
	now := time.Now()
	client := newClient(t, func() time.Time { return now }, 5*time.Second, p.agree)
	request(t, client, p.resource)
	now = now.Add(2 * time.Hour)
	request(t, client, p.resource)
	if got := p.count("/token"); got != 2 { // the code and the refresh token
		t.Errorf("%d token requests to the provider", got)
	}
	for _, form := range p.forms("/token") {
		if form.Get("grant_type") == "authorization_code" && form.Get("code_verifier") == "" {
			t.Error("the request to the provider is without PKCE")
		}
	}
	if err := client.Logout(t.Context(), p.resource); err != nil {
		t.Fatal(err)
	}
	if got := p.count("/revoke"); got != 1 {
		t.Errorf("%d revocations at the provider", got)
	}
}

func TestTokens(t *testing.T) {
	p := newProxied(t, nil)
	id := p.registered()
	form := p.login(id)
	for name, change := range map[string]map[string]string{
		"another verifier": {"code_verifier": "x"}, "another redirect": {"redirect_uri": clientRedirect + "/"}, "another client": {"client_id": p.registered()},
		"no client": {"client_id": ""}, "another resource": {"resource": "https://other.example"}, "garbage": {"code": "x"}, "another grant": {"grant_type": "password"},
	} {
		changed := maps.Clone(form)
		for key, value := range change {
			changed.Set(key, value)
		}
		if name == "another verifier" || name == "another redirect" || name == "garbage" || name == "another client" {
			if status, answer := p.token(changed); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
				t.Errorf("%s: got %d, %v", name, status, answer)
			}
		} else if status, answer := p.token(changed); status < 400 || answer["access_token"] != nil {
			t.Errorf("%s: got %d, %v", name, status, answer)
		}
		maps.Copy(form, url.Values{"code_verifier": {clientVerifier}, "redirect_uri": {clientRedirect}, "client_id": {id}, "grant_type": {"authorization_code"}})
		form.Del("resource")
	}
	form = p.login(id)
	status, first := p.token(form)
	if status != http.StatusOK || first["scope"] != "notes" || first["token_type"] != "Bearer" {
		t.Fatalf("got %d, %v", status, first)
	}
	if status, body := p.call(first["access_token"]); status != http.StatusOK || body != p.issuer+"#ada" {
		t.Errorf("got %d, %s", status, body)
	}
	for name, token := range map[string]any{"a refresh token": first["refresh_token"], "a code": form.Get("code"), "a client ID": id} {
		if status, _ := p.call(token); status != http.StatusUnauthorized {
			t.Errorf("%s is accepted: %d", name, status)
		}
	}
	if _, err := p.proxy.Verify(t.Context(), oauth.Secret(fmt.Sprint(first["access_token"])), "https://other.example/mcp"); !isInvalidToken(err) {
		t.Errorf("for another audience: %v", err)
	}
	foreign, err := p.as.Sign(map[string]any{"iss": p.identityProvider.url, "sub": "ada", "aud": p.resource, "exp": time.Now().Add(time.Hour).Unix(), "scope": "notes"})
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := p.call(foreign); status != http.StatusUnauthorized {
		t.Errorf("a token of the provider is accepted: %d", status)
	}
	// A second use of a code ends the login.
	if status, answer := p.token(form); answer["error"] != "invalid_grant" {
		t.Errorf("a used code: got %d, %v", status, answer)
	}
	if status, _ := p.call(first["access_token"]); status != http.StatusUnauthorized {
		t.Errorf("after the second use of the code: %d", status)
	}
}

func TestRefreshTokens(t *testing.T) {
	p := newProxied(t, nil)
	id := p.registered()
	_, first := p.token(p.login(id))
	refresh := func(token any, client string) (int, map[string]any) {
		return p.token(url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {fmt.Sprint(token)}})
	}
	if _, answer := refresh(first["refresh_token"], p.registered()); answer["error"] != "invalid_grant" {
		t.Errorf("another client: %v", answer)
	}
	p.replace("/token", refuseWith(http.StatusBadGateway, ""))
	if status, answer := refresh(first["refresh_token"], id); status != http.StatusServiceUnavailable {
		t.Errorf("while the provider fails: %d, %v", status, answer)
	}
	p.replace("/token", nil)
	status, second := refresh(first["refresh_token"], id)
	if status != http.StatusOK || second["refresh_token"] == first["refresh_token"] {
		t.Fatalf("got %d, %v", status, second)
	}
	if _, answer := refresh(first["refresh_token"], id); answer["error"] != "invalid_grant" {
		t.Errorf("a used refresh token: %v", answer)
	}
	if status, _ := p.call(second["access_token"]); status != http.StatusUnauthorized {
		t.Errorf("after the second use: %d", status)
	}
	_, third := p.token(p.login(id))
	p.as.Revoke() // the person has lost access at the provider
	if _, answer := refresh(third["refresh_token"], id); answer["error"] != "invalid_grant" {
		t.Errorf("after the provider has revoked: %v", answer)
	}
	_, fourth := p.token(p.login(id))
	revoke := func(client string) {
		form := url.Values{"token": {fmt.Sprint(fourth["access_token"])}, "client_id": {client}}
		if status, _ := p.post("revoke", "application/x-www-form-urlencoded", form.Encode()); status != http.StatusOK {
			t.Errorf("revocation: %d", status)
		}
	}
	revoke(p.registered())
	if status, _ := p.call(fourth["access_token"]); status != http.StatusOK {
		t.Errorf("after another client's revocation: %d", status)
	}
	revoke(id)
	if status, _ := p.call(fourth["access_token"]); status != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d", status)
	}
}

// Anyone can begin logins and come back without a code of the provider. That does not make a
// proxy forget used codes.
func TestRemembersUsesDespiteLogins(t *testing.T) {
	p := newProxied(t, nil)
	proxy.LimitStates(p.proxy, 2)
	id := p.registered()
	form := p.login(id)
	_, tokens := p.token(form)
	b := newBrowser(t, "http") // it follows no redirects
	_, page := b.open(p.authorizeURL(id, nil))
	for range 3 {
		state := location(t, b.decide(p.issuer+"/authorize", page, "allow", nil)).Get("state")
		res, _ := b.open(p.issuer + "/callback?state=" + state)
		if back := location(t, res); back.Get("error") == "" {
			t.Errorf("without a code of the provider: %v", back)
		}
	}
	if _, answer := p.token(form); answer["error"] != "invalid_grant" {
		t.Errorf("a used code: %v", answer)
	}
	if status, _ := p.call(tokens["access_token"]); status != http.StatusUnauthorized {
		t.Errorf("after the second use of the code: %d", status)
	}
}

// A login ends if the provider says that the person has to log in again, and outlives all other
// refusals.
func TestRefreshRefused(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string // "" for a page
		ends   bool
	}{
		{http.StatusBadRequest, "invalid_grant", true},
		{http.StatusUnauthorized, "invalid_grant", true},
		{http.StatusForbidden, "access_denied", true},
		{http.StatusBadRequest, "interaction_required", true},
		{http.StatusBadRequest, "login_required", true},
		{http.StatusBadRequest, "consent_required", true},
		{http.StatusOK, "bad_refresh_token", true},

		{http.StatusBadRequest, "invalid_request", false},
		{http.StatusUnauthorized, "invalid_client", false},
		{http.StatusBadRequest, "unauthorized_client", false},
		{http.StatusBadRequest, "unsupported_grant_type", false},
		{http.StatusBadRequest, "invalid_scope", false},
		{http.StatusOK, "incorrect_client_credentials", false},
		{http.StatusBadRequest, "something_new", false},
		{http.StatusBadRequest, "temporarily_unavailable", false},
		{http.StatusBadRequest, "server_error", false},
		{http.StatusBadRequest, "slow_down", false},
		{http.StatusTooManyRequests, "access_denied", false},
		{http.StatusInternalServerError, "invalid_grant", false},

		{http.StatusBadRequest, "", false},
		{http.StatusUnauthorized, "", false},
		{http.StatusForbidden, "", false},
		{http.StatusNotFound, "", false},
		{http.StatusMethodNotAllowed, "", false},
		{http.StatusRequestTimeout, "", false},
		{http.StatusTooManyRequests, "", false},
		{http.StatusBadGateway, "", false},
	} {
		name := fmt.Sprint(test.status, " ", test.code)
		p := newProxied(t, nil)
		id := p.registered()
		_, tokens := p.token(p.login(id))
		form := url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {fmt.Sprint(tokens["refresh_token"])}}
		p.replace("/token", refuseWith(test.status, test.code))
		if test.code == "" {
			p.replace("/token", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>No</h1>", test.status) })
		}
		refused, code, after := http.StatusServiceUnavailable, "temporarily_unavailable", http.StatusOK
		if test.ends {
			refused, code, after = http.StatusBadRequest, "invalid_grant", http.StatusBadRequest
		}
		if status, answer := p.token(form); status != refused || answer["error"] != code {
			t.Errorf("%s: %d, %v", name, status, answer)
		}
		if status, _ := p.call(tokens["access_token"]); (status == http.StatusOK) == test.ends {
			t.Errorf("%s: the access token: %d", name, status)
		}
		clear(p.handlers)
		if status, answer := p.token(form); status != after {
			t.Errorf("%s: afterwards: %d, %v", name, status, answer)
		}
	}
}

// A login outlives a time in which the provider has no usable metadata or responses.
func TestKeepsLoginsOfAFailingProvider(t *testing.T) {
	for name, fail := range map[string]func(p *replicas){
		"a malformed answer": func(p *replicas) {
			p.replace("/token", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 1) })
		},
		"no metadata": func(p *replicas) {
			p.replace("/.well-known/oauth-authorization-server", http.NotFound)
			p.replace("/.well-known/openid-configuration", http.NotFound)
		},
	} {
		p := newProxies(t, nil) // the second has not fetched the metadata
		id := p.registered()
		_, tokens := p.token(p.login(id))
		form := url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {fmt.Sprint(tokens["refresh_token"])}}
		fail(p)
		if status, answer := p.atSecond("token", form); status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d, %v", name, status, answer)
		}
		if status, _ := p.call(tokens["access_token"]); status != http.StatusOK {
			t.Errorf("%s: the access token: %d", name, status)
		}
		clear(p.handlers)
		if status, answer := p.token(form); status != http.StatusOK {
			t.Errorf("%s: afterwards: %d, %v", name, status, answer)
		}
	}
}

// The browser is not sent to an authorization endpoint that could mislead the person, or that
// sets parameters of the request.
func TestChecksTheAuthorizationEndpoint(t *testing.T) {
	for _, endpoint := range []string{
		"http://login.example.com/authorize", "https://user@login.example.com/authorize", "https://login.example.com/authorize#x",
		"https://login.example.com/authorize?redirect_uri=https://evil.example", "https://login.example.com/authorize?%zz",
	} {
		p := newProxied(t, nil)
		p.editMetadata = func(metadata map[string]any) { metadata["authorization_endpoint"] = endpoint }
		b := newBrowser(t, "http") // it follows no redirects
		_, page := b.open(p.authorizeURL(p.registered(), nil))
		res := b.decide(p.issuer+"/authorize", page, "allow", nil)
		if back := location(t, res); back.Get("error") != "temporarily_unavailable" || !strings.HasPrefix(res.Header.Get("Location"), clientRedirect) {
			t.Errorf("%s: got %s", endpoint, res.Header.Get("Location"))
		}
	}
}

// The consent page says who asks for what, and no login begins before the person agrees.
func TestConsentPage(t *testing.T) {
	p := newProxied(t, nil)
	id := p.register(`{"client_name":"<b>Evil\u202e</b>","redirect_uris":["` + clientRedirect + `"]}`)
	b := newBrowser(t, clientRedirect)
	for range 2 { // also when the same client asks again
		res, page := b.open(p.authorizeURL(id, nil))
		for _, want := range []string{"&lt;b&gt;Evil&lt;/b&gt;", clientRedirect, "notes", "Notes", p.identityProvider.url} {
			if !strings.Contains(page, want) {
				t.Errorf("the page is without %q:\n%s", want, page)
			}
		}
		if strings.Contains(page, "erase") {
			t.Error("the page lists a scope that was not requested")
		}
		header := res.Header
		if header.Get("X-Frame-Options") != "DENY" || !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || header.Get("Cache-Control") != "no-store" {
			t.Errorf("the header is %v", header)
		}
		for _, cookie := range res.Cookies() {
			if strings.Contains(cookie.Name, "login") || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
				t.Errorf("the page sets %v", cookie)
			}
		}
		if p.count("/authorize") != 0 {
			t.Fatal("the login begins without consent")
		}
	}
	_, page := b.open(p.authorizeURL(id, nil))
	at := p.issuer + "/authorize"
	other := newBrowser(t, clientRedirect)
	other.open(p.authorizeURL(id, nil)) // it has a cookie of its own
	for name, res := range map[string]*http.Response{
		"a new browser":     newBrowser(t, clientRedirect).decide(at, page, "allow", nil),
		"another browser":   other.decide(at, page, "allow", nil),
		"another site":      b.decide(at, page, "allow", http.Header{"Sec-Fetch-Site": {"cross-site"}}),
		"another origin":    b.decide(at, page, "allow", http.Header{"Origin": {"https://evil.example"}}),
		"a changed request": b.decide(at, strings.Replace(page, `value="dt1.`, `value="dt1.A`, 1), "allow", nil),
	} {
		if res.StatusCode != http.StatusBadRequest || p.count("/authorize") != 0 {
			t.Errorf("%s: got %d", name, res.StatusCode)
		}
	}
}

// With https, cookies have the prefix that binds them to the host.
func TestCookiesOverHTTPS(t *testing.T) {
	p, err := proxy.New(&proxy.Options{
		Issuer: "https://mcp.example.com", Resource: "https://mcp.example.com/mcp", Provider: "https://login.example.com/tenant", Client: oauth.Registration{ClientID: "proxy", Secret: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := p.Wrap(http.NotFoundHandler())
	res := do(h, http.MethodPost, "/register", `{"redirect_uris":["`+clientRedirect+`"]}`)
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(bodyOf(t, res)), &client); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {clientRedirect}, "code_challenge": {strings.Repeat("a", 43)}, "code_challenge_method": {"S256"}}
	res = do(h, http.MethodGet, "/authorize?"+query.Encode(), "")
	if len(res.Cookies()) != 1 {
		t.Fatalf("got %d, %v", res.StatusCode, res.Cookies())
	}
	if cookie := res.Cookies()[0]; !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("got %v", cookie)
	}
	if res := do(h, http.MethodGet, "/.well-known/oauth-authorization-server", ""); res.StatusCode != http.StatusOK || res.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the metadata: %d, %v", res.StatusCode, res.Header)
	}
	if res := do(h, http.MethodGet, "/other", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", res.StatusCode)
	}
}

// The response of the provider is accepted once, and only in the browser that agreed.
func TestCallback(t *testing.T) {
	p := newProxied(t, nil)
	id := p.registered()
	victim := newBrowser(t, p.issuer+"/callback")
	_, page := victim.open(p.authorizeURL(id, nil))
	res := victim.decide(p.issuer+"/authorize", page, "allow", nil)
	callback, err := res.Location()
	if err != nil {
		t.Fatal(err)
	}
	at := callback.String()
	for name, try := range map[string]func() (*http.Response, string){
		"another browser": func() (*http.Response, string) { return newBrowser(t, clientRedirect).open(at) },
		"another state": func() (*http.Response, string) {
			return victim.open(strings.Replace(at, "state="+callback.Query().Get("state"), "state="+strings.Repeat("A", 26), 1))
		},
		"a similar state": func() (*http.Response, string) {
			state := callback.Query().Get("state")
			return victim.open(strings.Replace(at, "state="+state, "state="+state[:8]+strings.Repeat("A", 18), 1))
		},
		"no state": func() (*http.Response, string) { return victim.open(p.issuer + "/callback?code=x") },
	} {
		if res, _ := try(); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d", name, res.StatusCode)
		}
	}
	cookies := victim.client.Jar.Cookies(callback)
	victim.client.CheckRedirect = newBrowser(t, clientRedirect).client.CheckRedirect
	if res, _ := victim.open(at); location(t, res).Get("code") == "" {
		t.Error("the login has failed")
	}
	victim.client.Jar.SetCookies(callback, cookies)
	if res, _ := victim.open(at); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a second time: got %d", res.StatusCode)
	}
}

// Nothing is sent to a redirect URI that is not registered byte for byte.
func TestRedirectURIs(t *testing.T) {
	p := newProxied(t, nil)
	id := p.register(`{"redirect_uris":["` + clientRedirect + `","http://127.0.0.1:1234/callback","com.example.app:/back"]}`)
	b := newBrowser(t, clientRedirect)
	for _, to := range []string{
		"", clientRedirect + "/", clientRedirect + "?x", strings.ToUpper(clientRedirect), "https://app.example:443/back", "http://127.0.0.1:1235/callback",
		"http://localhost:1234/callback", "https://evil.example/back", "com.example.app:/other",
	} {
		if res, _ := b.open(p.authorizeURL(id, map[string]string{"redirect_uri": to})); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got %d", to, res.StatusCode)
		}
	}
	if res, _ := b.open(p.authorizeURL("x", nil)); res.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown client: %d", res.StatusCode)
	}
	for name, uris := range map[string]string{
		"none": `[]`, "javascript": `["javascript:alert(1)"]`, "data": `["data:text/html,x"]`, "plain http": `["http://app.example/back"]`, "a fragment": `["https://app.example/#x"]`,
		"a user": `["https://a@app.example/"]`, "another scheme": `["com.other.app:/back"]`, "no host": `["https:///back"]`, "a list of others": `[1]`,
		"long": `["https://app.example/` + strings.Repeat("a", 512) + `"]`, "many": `[` + strings.Repeat(`"https://a.example/",`, 10) + `"https://a.example/"]`,
	} {
		if status, answer := p.post("register", "application/json", `{"redirect_uris":`+uris+`}`); status != http.StatusBadRequest || answer["error"] == nil {
			t.Errorf("%s: got %d, %v", name, status, answer)
		}
	}
	most := `[` + strings.Repeat(`"https://a.example/",`, 9) + `"https://a.example/"]`
	if status, answer := p.post("register", "application/json", `{"redirect_uris":`+most+`}`); status != http.StatusCreated {
		t.Errorf("ten redirect URIs: got %d, %v", status, answer)
	}
}

func TestAdmit(t *testing.T) {
	var admit func(*proxy.Login) error
	p := newProxied(t, func(o *proxy.Options) {
		o.AuthorizationEndpoint, o.TokenEndpoint = o.Provider+"/authorize", o.Provider+"/token"
		o.ProviderScopes = []string{"user"} // without openid there is no ID token
		o.Admit = func(_ context.Context, login *proxy.Login) error { return admit(login) }
	})
	id := p.registered()
	try := func() url.Values {
		b := newBrowser(t, clientRedirect)
		_, page := b.open(p.authorizeURL(id, map[string]string{"scope": "notes erase offline_access"}))
		return location(t, b.decide(p.issuer+"/authorize", page, "allow", nil))
	}
	admit = func(*proxy.Login) error { return errors.New("not a member") }
	if got := try(); got.Get("error") != "access_denied" {
		t.Errorf("refused: %v", got)
	}
	admit = func(*proxy.Login) error { return nil }
	if got := try(); got.Get("error") != "server_error" {
		t.Errorf("without a subject: %v", got)
	}
	admit = func(login *proxy.Login) error {
		if login.AccessToken == "" || login.Claims != nil || login.Subject != "" || fmt.Sprint(login.Scopes) != "[notes erase]" {
			t.Errorf("admits %+v", login)
		}
		login.Subject, login.Scopes = "42", []string{"notes", "admin"}
		return nil
	}
	_, answer := p.token(url.Values{
		"grant_type": {"authorization_code"}, "client_id": {id}, "code": {try().Get("code")}, "code_verifier": {clientVerifier}, "redirect_uri": {clientRedirect},
	})
	if answer["scope"] != "notes" {
		t.Errorf("granted: %v", answer)
	}
	if status, body := p.call(answer["access_token"]); status != http.StatusOK || body != p.issuer+"#42" {
		t.Errorf("got %d, %s", status, body)
	}
}

// An ID token must be for this login.
func TestIDTokens(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"good": {}, "another nonce": {"nonce": "other"}, "no nonce": {"nonce": nil}, "another audience": {"aud": "other"},
		"another issuer": {"iss": "https://other.example"}, "another party": {"azp": "other"}, "expired": {"exp": time.Now().Add(-time.Hour).Unix()},
	} {
		p := newProxied(t, nil)
		p.replace("/token", func(res http.ResponseWriter, r *http.Request) {
			claims := map[string]any{
				"iss": p.identityProvider.url, "sub": "ada", "aud": "proxy", "exp": time.Now().Add(time.Hour).Unix(), "nonce": p.forms("/authorize")[0].Get("nonce"),
			}
			maps.Copy(claims, change)
			maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
			text, err := p.as.Sign(claims)
			if err != nil {
				t.Error(err)
			}
			writeJSON(res, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": text})
		})
		b := newBrowser(t, clientRedirect)
		_, page := b.open(p.authorizeURL(p.registered(), nil))
		back := location(t, b.decide(p.issuer+"/authorize", page, "allow", nil))
		if (name == "good") != (back.Get("code") != "") {
			t.Errorf("%s: got %v", name, back)
		}
	}
}

// The provider in the options may differ from the one in its metadata by a slash. ID tokens must name the latter.
func TestProviderWithSlash(t *testing.T) {
	for iss, works := range map[string]bool{"/": true, "": false} {
		p := newProxied(t, nil)
		url := p.identityProvider.url
		p.as.URL = url + "/"
		p.editMetadata = func(metadata map[string]any) {
			for name, value := range metadata {
				if text, ok := value.(string); ok {
					metadata[name] = strings.Replace(text, url+"//", url+"/", 1)
				}
			}
		}
		p.replace("/token", func(res http.ResponseWriter, r *http.Request) {
			text, err := p.as.Sign(map[string]any{
				"iss": url + iss, "sub": "ada", "aud": "proxy", "exp": time.Now().Add(time.Hour).Unix(), "nonce": p.forms("/authorize")[0].Get("nonce"),
			})
			if err != nil {
				t.Error(err)
			}
			writeJSON(res, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": text})
		})
		b := newBrowser(t, clientRedirect)
		_, page := b.open(p.authorizeURL(p.registered(), nil))
		back := location(t, b.decide(p.issuer+"/authorize", page, "allow", nil))
		if works != (back.Get("code") != "") {
			t.Errorf("an ID token of %q: got %v", url+iss, back)
		}
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(*proxy.Options){
		"no issuer":      func(o *proxy.Options) { o.Issuer = "" },
		"plain http":     func(o *proxy.Options) { o.Issuer = "http://mcp.example.com" },
		"no resource":    func(o *proxy.Options) { o.Resource = "" },
		"no provider":    func(o *proxy.Options) { o.Provider = "" },
		"the provider":   func(o *proxy.Options) { o.Issuer = o.Provider },
		"no client":      func(o *proxy.Options) { o.Client.ClientID = "" },
		"another client": func(o *proxy.Options) { o.Client.Issuer = "https://other.example" },
		"one endpoint":   func(o *proxy.Options) { o.TokenEndpoint = "https://login.example.com/token" },
		"local endpoints": func(o *proxy.Options) {
			o.TokenEndpoint, o.AuthorizationEndpoint = "http://127.0.0.1/", "http://127.0.0.1/"
		},
		"a scheme":    func(o *proxy.Options) { o.RedirectSchemes = []string{"javascript"} },
		"a scope":     func(o *proxy.Options) { o.Scopes = []string{"a b"} },
		"a short key": func(o *proxy.Options) { o.Keys = []oauth.Secret{"x"} },
		"no keys":     func(o *proxy.Options) { o.Store = newSharedStore(t) },
		"a long life": func(o *proxy.Options) { o.TokenLife = 25 * time.Hour },
	} {
		opts := &proxy.Options{
			Issuer: "https://mcp.example.com/oauth", Resource: "https://mcp.example.com/mcp", Provider: "https://login.example.com/tenant", Client: oauth.Registration{ClientID: "proxy", Secret: canary},
		}
		if p, err := proxy.New(opts); err != nil || strings.Contains(printed(t, p), canary) {
			t.Errorf("the good options: %v", err)
		}
		change(opts)
		if _, err := proxy.New(opts); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOptionsArePrintedWithoutSecrets(t *testing.T) {
	opts := proxy.Options{Client: oauth.Registration{ClientID: "x", Secret: canary}, Keys: []oauth.Secret{oauth.Secret(strings.Repeat(canary, 3))}}
	for _, value := range []any{opts, &opts} {
		if text := printed(t, value); strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%d", []byte(canary))[1:20]) || !strings.Contains(text, "[secret]") {
			t.Errorf("%T is printed as\n%s", value, text)
		}
	}
}

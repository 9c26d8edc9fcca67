package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An upstream is a server that needs a login, and says whose token it has seen.
type upstream struct {
	url       string
	issuer    string
	provider  atomic.Pointer[oauthtest.Server]  // at issuer
	verifier  atomic.Pointer[oauth.JWTVerifier] // with the keys of provider
	refuse    atomic.Pointer[string]            // the person whose tokens it refuses
	refreshed atomic.Int64
	revoked   atomic.Int64
	exchanged atomic.Int64
	private   atomic.Pointer[string]           // the person who sees another tool
	grant     atomic.Pointer[http.HandlerFunc] // answers other requests for tokens; nil without any
	entry     map[string]any                   // in the file of servers
}

// accountOf is the name that a person has at the upstream.
func accountOf(person string) string { return person + "@upstream" }

func newUpstream(t *testing.T, life time.Duration) *upstream {
	t.Helper()
	u := &upstream{}
	counted, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.issuer = "http://" + counted.Addr().String()
	u.startProvider(t, life)
	serveLogin(t, counted, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.ParseForm() == nil {
			switch {
			case r.PostForm.Get("grant_type") == "refresh_token":
				u.refreshed.Add(1)
			case strings.HasSuffix(r.URL.Path, "revoke"):
				u.revoked.Add(1)
			case u.grant.Load() != nil:
				(*u.grant.Load())(w, r)
				return
			}
		}
		u.provider.Load().ServeHTTP(w, r)
	})
	s := server.New(mcp.Implementation{Name: "upstream", Version: "1"}, &server.Options{Guards: []mcp.Guard{{
		Name: "private", Visible: func(ctx context.Context, _ *mcp.Caller, target *mcp.Target) bool {
			grant, private := oauth.FromContext(ctx), u.private.Load()
			return target.Name != "secret" || private != nil && grant != nil && grant.Subject == *private
		},
	}}})
	who := func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		return oauth.FromContext(ctx).Subject, nil
	}
	server.AddTool(s, server.Tool{Name: "whoami", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, who)
	server.AddTool(s, server.Tool{Name: "secret"}, who)
	handler := streamable.Handler(s, nil)
	t.Cleanup(func() { _ = handler.Close() })
	var protected http.Handler
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { protected.ServeHTTP(w, r) }))
	t.Cleanup(site.Close)
	u.url = site.URL + "/mcp"
	u.entry = map[string]any{"url": u.url, "dovetail": map[string]any{"auth": "user"}}
	protected, err = oauth.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := u.refuse.Load(); refused != nil && oauth.FromContext(r.Context()).Subject == *refused {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}), &oauth.ProtectOptions{Resource: u.url, AuthorizationServers: []string{u.issuer}, Verifier: u})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// startProvider starts the provider, or starts it again without what it knew: registrations, tokens and keys.
func (u *upstream) startProvider(t *testing.T, life time.Duration) {
	t.Helper()
	provider, err := oauthtest.New(u.issuer, &oauthtest.Options{TokenLife: life, Person: func(r *http.Request) string {
		cookie, err := r.Cookie("person")
		if err != nil {
			return "nobody"
		}
		return accountOf(cookie.Value)
	}})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: u.issuer, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	u.provider.Store(provider)
	u.verifier.Store(verifier)
}

// Verify verifies a token of the provider.
func (u *upstream) Verify(ctx context.Context, token oauth.Secret, audience string) (*oauth.Grant, error) {
	return u.verifier.Load().Verify(ctx, token, audience)
}

// A team is the program with people, and the upstream behind it.
type team struct {
	*program
	login issuer
}

func startGateway(t *testing.T, u *upstream, login issuer, flags ...string) *team {
	t.Helper()
	t.Setenv("GATEWAY_SECRET", "gateway-secret")
	p := &program{folder: t.TempDir(), said: &output{}}
	p.run(t, strings.NewReader(""), gatewayLine(t, p, u, login, flags...))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.said)
		}
	})
	return &team{p, login}
}

// gatewayLine is the command line of startGateway.
func gatewayLine(t *testing.T, p *program, u *upstream, login issuer, flags ...string) []string {
	config := p.write(t, "mcp.json", encoded(t, map[string]any{"mcpServers": map[string]any{"notes": u.entry}}))
	return append([]string{"serve", "-config", config, "-http", "127.0.0.1:0", "-issuer", login.URL, "-audience", "shop",
		"-client-id", "gateway", "-client-secret-env", "GATEWAY_SECRET", "-operators", "ops"}, flags...)
}

// as returns the gateway for a person, with a token that lasts longer than any test.
func (g *team) as(t *testing.T, person string) *team {
	p := *g.program
	p.token = g.login.token(t, map[string]any{"sub": person, "exp": time.Now().Add(6 * time.Hour).Unix()})
	return &team{&p, g.login}
}

// A browser is that of a person.
type browser struct {
	*http.Client
	gateway string
}

// browser returns the browser of a person, who has logged in at the gateway.
func (g *team) browser(t *testing.T, person string) *browser {
	t.Helper()
	b := &browser{newBrowser(t, person), "http://" + g.address}
	if status, page, err := b.open(t.Context(), b.gateway+"/accounts/"); err != nil || status != http.StatusOK || !strings.Contains(page, "Accounts of "+person) {
		t.Errorf("the login of %s: %d %s %v", person, status, page, err)
	}
	return b
}

// open opens a page.
func (b *browser) open(ctx context.Context, address string) (status int, page string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	return b.send(request)
}

func (b *browser) send(request *http.Request) (status int, page string, err error) {
	response, err := b.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// press presses a button of the page of accounts.
func (b *browser) press(ctx context.Context, button, alias string) (status int, page string, err error) {
	return b.send(b.form(ctx, button, alias))
}

// form returns the request of a button.
func (b *browser) form(ctx context.Context, button, alias string) *http.Request {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.gateway+"/accounts/"+button, strings.NewReader(url.Values{"server": {alias}}.Encode()))
	if err != nil {
		panic(err) // the address is that of the program
	}
	request.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {b.gateway}, "Sec-Fetch-Site": {"same-origin"}}
	return request
}

// connectAccount connects the account of a person.
func (g *team) connectAccount(t *testing.T, person string) {
	t.Helper()
	status, page, err := g.browser(t, person).press(t.Context(), "connect", "notes")
	if err != nil || status != http.StatusOK || !strings.Contains(page, "is connected") {
		t.Fatalf("connecting the account of %s: %d %s %v\n%s", person, status, page, err, g.said)
	}
}

// offersTools waits until the tools of the upstream are known.
func (g *team) offersTools(t *testing.T, person string) *client.Session {
	t.Helper()
	session := g.as(t, person).connect(t, nil)
	waittest.Until(t, "the tools", func() bool {
		for tool, err := range session.Tools(t.Context(), nil) {
			if err == nil && tool.Name == "notes__whoami" {
				return true
			}
		}
		return false
	})
	return session
}

// whoami calls the tool that says whose token the upstream has seen.
func whoami(ctx context.Context, session *client.Session) (string, error) {
	result, err := session.CallTool(ctx, "notes__whoami", nil, nil)
	if err != nil {
		return "", err
	}
	if result.IsError {
		return "", fmt.Errorf("%s", result.Text())
	}
	return result.Text(), nil
}

// TestCallsUseTheCallersAccount: after the first person has connected an account, all see the tools. Each person's calls use the own
// account, and calls without one are refused with the URL.
func TestCallsUseTheCallersAccount(t *testing.T) {
	u := newUpstream(t, time.Hour)
	g := startGateway(t, u, newProvider(t))
	g.connectAccount(t, "ada")
	ada, bob := g.offersTools(t, "ada"), g.offersTools(t, "bob")
	if who, err := whoami(t.Context(), ada); err != nil || who != accountOf("ada") {
		t.Errorf("the call of ada is one of %q: %v", who, err)
	}
	if who, err := whoami(t.Context(), bob); err == nil || !strings.Contains(err.Error(), "http://"+g.address+"/accounts/?") {
		t.Errorf("the call of bob is one of %q: %v", who, err)
	}
	g.connectAccount(t, "bob")
	if who, err := whoami(t.Context(), bob); err != nil || who != accountOf("bob") {
		t.Errorf("the call of bob is one of %q: %v", who, err)
	}
	if who, err := whoami(t.Context(), ada); err != nil || who != accountOf("ada") {
		t.Errorf("then the call of ada is one of %q: %v", who, err)
	}
}

// TestCallAsksForAnAccount: a call without an account asks with the URL, in both eras and in each frontend that can ask, and goes on by
// itself when the account is connected.
func TestCallAsksForAnAccount(t *testing.T) {
	u := newUpstream(t, time.Hour)
	g := startGateway(t, u, newProvider(t))
	g.connectAccount(t, "ada")
	g.offersTools(t, "ada")
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		for _, before := range []bool{true, false} {
			person := fmt.Sprint(name, before)
			t.Run(person, func(t *testing.T) {
				b, connecting := g.browser(t, person), make(chan error, 1)
				connect := func(ctx context.Context, link string) error {
					status, page, err := b.open(ctx, link)
					if err != nil || status != http.StatusOK || !strings.Contains(page, `aria-label="Connect notes" autofocus`) {
						return fmt.Errorf("the page of the link: %d %s %w", status, page, err)
					}
					if status, page, err = b.press(ctx, "connect", "notes"); err != nil || !strings.Contains(page, "is connected") {
						return fmt.Errorf("after the button: %d %s %w", status, page, err)
					}
					return nil
				}
				questions := 0
				session := g.as(t, person).connect(t, &client.Options{Era: era, ElicitURLs: true, Elicit: func(ctx context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					questions++
					if question.Mode != mcp.ElicitURL {
						return nil, fmt.Errorf("a question of the mode %s", question.Mode)
					}
					if before {
						connecting <- connect(ctx, question.URL)
					} else {
						go func() { connecting <- connect(t.Context(), question.URL) }()
					}
					return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
				}})
				who, err := whoami(t.Context(), session)
				if err != nil || who != accountOf(person) {
					t.Errorf("the call is one of %q: %v", who, err)
				}
				if err := waittest.Receive(t, "the login", connecting); err != nil {
					t.Error(err)
				}
				if who, err := whoami(t.Context(), session); err != nil || who != accountOf(person) || questions != 1 {
					t.Errorf("the next call is one of %q, after %d questions: %v", who, questions, err)
				}
			})
		}
	}
}

// TestCallWithoutAnAccountIsRefused: a caller that cannot be asked, does not want to, or can have no account gets an error that says
// what to do.
func TestCallWithoutAnAccountIsRefused(t *testing.T) {
	u := newUpstream(t, time.Hour)
	key, entry := newKey(t, "ci")
	keys := (&program{folder: t.TempDir()}).write(t, "keys.json", keysOf(entry))
	g := startGateway(t, u, newProvider(t), "-keys", keys)
	g.connectAccount(t, "ada")
	g.offersTools(t, "ada")
	answer := func(action mcp.ElicitAction) *client.Options {
		return &client.Options{ElicitURLs: true, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: action}, nil
		}}
	}
	link := "http://" + g.address + "/accounts/?"
	ci := g.as(t, "nobody")
	ci.token = key
	for name, caller := range map[string]struct {
		of   *team
		opts *client.Options
		want string
	}{
		"a client without questions":      {g.as(t, "bob"), nil, link},
		"a client with forms only":        {g.as(t, "bob"), &client.Options{Elicit: answer(mcp.ElicitAccept).Elicit}, link},
		"a person who declines":           {g.as(t, "bob"), answer(mcp.ElicitDecline), link},
		"a person who closes the message": {g.as(t, "bob"), answer(mcp.ElicitCancel), link},
		"an API key":                      {ci, answer(mcp.ElicitAccept), "a login in place of an API key"},
	} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			opts := client.Options{}
			if caller.opts != nil {
				opts = *caller.opts
			}
			opts.Era = era
			if who, err := whoami(t.Context(), caller.of.connect(t, &opts)); err == nil || !strings.Contains(err.Error(), caller.want) {
				t.Errorf("%s: the call is one of %q: %v", name, who, err)
			}
		}
	}
	for _, path := range []string{"/api/v1/rest/tools/notes__whoami", "/api/v1/mcp/proxy/notes/tools/whoami"} {
		for token, want := range map[string]string{g.as(t, "bob").token: link[:len(link)-1], key: "a login in place of an API key"} {
			if _, text, err := g.do(t.Context(), token, http.MethodPost, path, `{}`); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %s %v", path, text, err)
			}
		}
	}
}

// TestAccountIsThatOfTheBrowser: what a person connects is their own, whoever was asked, and a response to a login is taken only from
// the person and the browser that have begun it.
func TestAccountIsThatOfTheBrowser(t *testing.T) {
	u := newUpstream(t, time.Hour)
	g := startGateway(t, u, newProvider(t))
	g.connectAccount(t, "ada")
	ada := g.offersTools(t, "ada")
	_, err := whoami(t.Context(), g.as(t, "bob").connect(t, nil))
	if err == nil {
		t.Fatal("a call without an account is made")
	}
	link := regexp.MustCompile(`http://\S+`).FindString(err.Error())
	eve := g.browser(t, "eve")
	if status, page, err := eve.open(t.Context(), link); err != nil || status != http.StatusForbidden || !strings.Contains(page, "was made for somebody else") {
		t.Errorf("the link of another person: %d %s %v", status, page, err)
	}
	if status, page, err := eve.open(t.Context(), strings.Replace(link, "asked=", "asked=x", 1)); err != nil || status != http.StatusBadRequest {
		t.Errorf("a forged link: %d %s %v", status, page, err)
	}
	if status, page, err := eve.press(t.Context(), "connect", "notes"); err != nil || !strings.Contains(page, "is connected") {
		t.Errorf("%d %s %v", status, page, err)
	}
	for person, want := range map[string]string{"eve": accountOf("eve"), "bob": ""} {
		if who, _ := whoami(t.Context(), g.as(t, person).connect(t, nil)); who != want {
			t.Errorf("the call of %s is one of %q", person, who)
		}
	}
	// bob begins a login, and others deliver its response.
	bob := g.browser(t, "bob")
	bob.CheckRedirect = func(request *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(request.URL.Path, "/accounts/callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	request := bob.form(t.Context(), "connect", "notes")
	response, err := bob.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	callback := response.Header.Get("Location")
	if !strings.Contains(callback, "/accounts/callback?") {
		t.Fatalf("the login leads to %s", callback)
	}
	for name, other := range map[string]*browser{"another person": eve, "another browser of the person": g.browser(t, "bob")} {
		if status, page, err := other.open(t.Context(), callback); err != nil || !strings.Contains(page, "begun by somebody else") {
			t.Errorf("%s: %d %s %v", name, status, page, err)
		}
	}
	bob.CheckRedirect = nil
	if status, page, err := bob.open(t.Context(), callback); err != nil || !strings.Contains(page, "is connected") {
		t.Errorf("the browser that has begun: %d %s %v", status, page, err)
	}
	if status, page, err := bob.open(t.Context(), callback); err != nil || !strings.Contains(page, "begun by somebody else") {
		t.Errorf("the same response again: %d %s %v", status, page, err)
	}
	for person, session := range map[string]*client.Session{"ada": ada, "bob": g.as(t, "bob").connect(t, nil), "eve": g.as(t, "eve").connect(t, nil)} {
		if who, err := whoami(t.Context(), session); err != nil || who != accountOf(person) {
			t.Errorf("the call of %s is one of %q: %v", person, who, err)
		}
	}
}

// TestFormsOfOtherSites: the page accepts its own forms only, and shows nothing to a browser without a login.
func TestFormsOfOtherSites(t *testing.T) {
	u := newUpstream(t, time.Hour)
	g := startGateway(t, u, newProvider(t))
	g.connectAccount(t, "ada")
	for name, header := range map[string]http.Header{
		"another origin":   {"Origin": {"https://evil.example"}},
		"another site":     {"Sec-Fetch-Site": {"cross-site"}},
		"another port":     {"Origin": {"http://127.0.0.1:1"}, "Sec-Fetch-Site": {"same-site"}},
		"an opaque origin": {"Origin": {"null"}},
	} {
		b := g.browser(t, "ada")
		request := b.form(t.Context(), "disconnect", "notes")
		request.Header = header
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if status, page, err := b.send(request); err != nil || status != http.StatusForbidden {
			t.Errorf("%s: %d %s %v", name, status, page, err)
		}
	}
	if who, err := whoami(t.Context(), g.offersTools(t, "ada")); err != nil || who != accountOf("ada") {
		t.Errorf("then the call is one of %q: %v", who, err)
	}
	stranger := &browser{http.DefaultClient, "http://" + g.address}
	for _, path := range []string{"/accounts/", "/accounts/callback?state=x"} {
		if status, page, err := stranger.open(t.Context(), stranger.gateway+path); err != nil || strings.Contains(page, "notes") {
			t.Errorf("%s without a login: %d %s %v", path, status, page, err)
		}
	}
	if status, page, err := g.browser(t, "ada").press(t.Context(), "connect", "unknown"); err != nil || status != http.StatusNotFound {
		t.Errorf("an unknown server: %d %s %v", status, page, err)
	}
	response, err := g.browser(t, "ada").Get("http://" + g.address + "/accounts/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "script") {
		t.Errorf("the policy of the page is %s", policy)
	}
}

// TestDisconnectedAccount: the tokens are revoked, and no call is made with them, also at another replica.
func TestDisconnectedAccount(t *testing.T) {
	u := newUpstream(t, time.Hour)
	address, login := newStore(t), newProvider(t)
	first, second := startGateway(t, u, login, "-store", address), startGateway(t, u, login, "-store", address)
	first.connectAccount(t, "ada")
	one, two := first.offersTools(t, "ada"), second.offersTools(t, "ada")
	for _, session := range []*client.Session{one, two} {
		if who, err := whoami(t.Context(), session); err != nil || who != accountOf("ada") {
			t.Errorf("the call is one of %q: %v", who, err)
		}
	}
	status, page, err := second.browser(t, "ada").press(t.Context(), "disconnect", "notes")
	if err != nil || status != http.StatusOK || !strings.Contains(page, "is disconnected") {
		t.Errorf("disconnecting: %d %s %v", status, page, err)
	}
	if n := u.revoked.Load(); n == 0 {
		t.Error("no token was revoked")
	}
	for name, session := range map[string]*client.Session{"the first": one, "the second": two} {
		waittest.Until(t, "refused calls at "+name, func() bool {
			who, err := whoami(t.Context(), session)
			return who == "" && strings.Contains(err.Error(), "/accounts/?")
		})
	}
	second.connectAccount(t, "ada")
	for _, session := range []*client.Session{one, two} {
		if who, err := whoami(t.Context(), session); err != nil || who != accountOf("ada") {
			t.Errorf("with the next account the call is one of %q: %v", who, err)
		}
	}
}

// TestAccountThatTheServerRefuses: the person is asked to connect again.
func TestAccountThatTheServerRefuses(t *testing.T) {
	u := newUpstream(t, time.Hour)
	g := startGateway(t, u, newProvider(t))
	g.connectAccount(t, "ada")
	g.connectAccount(t, "bob")
	ada, bob := g.offersTools(t, "ada"), g.as(t, "bob").connect(t, nil)
	if who, err := whoami(t.Context(), ada); err != nil || who != accountOf("ada") {
		t.Errorf("the call is one of %q: %v", who, err)
	}
	u.refuse.Store(new(accountOf("ada")))
	u.provider.Load().Revoke()
	if who, err := whoami(t.Context(), ada); err == nil || !strings.Contains(err.Error(), "/accounts/?") {
		t.Errorf("the refused call is one of %q: %v", who, err)
	}
	if _, page, err := g.browser(t, "ada").open(t.Context(), "http://"+g.address+"/accounts/"); err != nil || !strings.Contains(page, "does not accept your account any more") {
		t.Errorf("the page: %s %v", page, err)
	}
	if who, err := whoami(t.Context(), bob); err != nil || who != accountOf("bob") {
		t.Errorf("the call of another person is one of %q: %v", who, err)
	}
	u.refuse.Store(nil)
	g.connectAccount(t, "ada")
	if who, err := whoami(t.Context(), ada); err != nil || who != accountOf("ada") {
		t.Errorf("with the next account the call is one of %q: %v", who, err)
	}
}

// TestProviderThatHasForgottenTheProgram: the provider of a server has lost the registration that the program has made there, and shows
// an error in place of a login. The program registers again, whether it learns that by a refresh or a logout, or not at all.
func TestProviderThatHasForgottenTheProgram(t *testing.T) {
	for name, learn := range map[string]func(t *testing.T, g *team, session *client.Session){
		"refresh": func(t *testing.T, _ *team, session *client.Session) {
			if who, err := whoami(t.Context(), session); err == nil {
				t.Errorf("a call without a valid account is one of %q", who)
			}
		},
		"logout": func(t *testing.T, g *team, _ *client.Session) {
			if status, page, err := g.browser(t, "ada").press(t.Context(), "disconnect", "notes"); err != nil || !strings.Contains(page, "is disconnected here") {
				t.Errorf("disconnecting: %d %s %v", status, page, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, time.Second) // each call refreshes
			g := startGateway(t, u, newProvider(t))
			g.connectAccount(t, "bob") // and stays connected
			g.connectAccount(t, "ada")
			session := g.offersTools(t, "ada")
			u.startProvider(t, time.Hour)
			learn(t, g, session)
			g.connectAccount(t, "ada")
			if who, err := whoami(t.Context(), session); err != nil || who != accountOf("ada") {
				t.Errorf("the call of ada is one of %q: %v", who, err)
			}
		})
	}
	t.Run("no account", func(t *testing.T) {
		u := newUpstream(t, time.Hour)
		g := startGateway(t, u, newProvider(t))
		g.connectAccount(t, "ada")
		if _, page, err := g.browser(t, "ada").press(t.Context(), "disconnect", "notes"); err != nil || !strings.Contains(page, "is disconnected.") {
			t.Fatal(page, err)
		}
		u.startProvider(t, time.Hour)
		g.connectAccount(t, "bob")
	})
}

// TestToolsOfOneAccountAreNotOffered: what only some accounts list is offered to nobody.
func TestToolsOfOneAccountAreNotOffered(t *testing.T) {
	u := newUpstream(t, time.Hour)
	u.private.Store(new(accountOf("ada")))
	g := startGateway(t, u, newProvider(t))
	g.connectAccount(t, "bob")
	session := g.offersTools(t, "cy")
	g.connectAccount(t, "ada")
	g.connectAccount(t, "cy")
	if who, err := whoami(t.Context(), session); err != nil || who != accountOf("cy") {
		t.Errorf("the call is one of %q: %v", who, err)
	}
	for _, person := range []string{"ada", "bob", "cy"} {
		if names := offeredNames(t, g.as(t, person).connect(t, nil)); names != "notes__whoami" {
			t.Errorf("%s sees %s", person, names)
		}
	}
}

func offeredNames(t *testing.T, session *client.Session) string {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// TestListsThatAccountsHave is about which entries are offered.
func TestListsThatAccountsHave(t *testing.T) {
	now := time.Now()
	item := func(text string) knownItem { return knownItem{mcp.KindTool, text, []byte(`{"name":"` + text + `"}`)} }
	type step struct {
		reader, server string
		after          time.Duration
		lists, want    string
	}
	for name, steps := range map[string][]step{
		"one account":                        {{"ada", "1", 0, "a b", "a b"}, {"ada", "1", 0, "a c", "a c"}},
		"accounts that list the same":        {{"ada", "1", 0, "a b", "a b"}, {"bob", "1", 0, "b a", "b a"}},
		"an account that lists more":         {{"ada", "1", 0, "a", "a"}, {"bob", "1", 0, "a b", "a"}},
		"an account that lists less":         {{"ada", "1", 0, "a b", "a b"}, {"bob", "1", 0, "a", "a"}, {"ada", "1", 0, "a b", "a"}},
		"an account that was not read later": {{"ada", "1", 0, "a b", "a b"}, {"bob", "1", readingLife, "a c", "a c"}},
		"another version of the server":      {{"ada", "1", 0, "a b", "a b"}, {"bob", "2", 0, "a c", "a c"}, {"ada", "2", 0, "a c", "a c"}},
	} {
		var known knownLists
		at := now
		for i, s := range steps {
			at = at.Add(s.after)
			read := reading{Reader: s.reader, Server: s.server, At: at}
			var entries []knownItem
			for text := range strings.FieldsSeq(s.lists) {
				i := item(text)
				entries, read.Digests = append(entries, i), append(read.Digests, i.digest())
			}
			slices.Sort(read.Digests)
			known.add(read, entries)
			var got []string
			for _, item := range known.Entries {
				got = append(got, item.Name)
			}
			if strings.Join(got, " ") != s.want {
				t.Errorf("%s: after step %d %q is offered, want %q", name, i, got, s.want)
			}
		}
	}
	var known knownLists
	for i := range 2 * maxReadings {
		known.add(reading{Reader: fmt.Sprint(i), At: now}, nil)
	}
	if len(known.Readings) != maxReadings {
		t.Errorf("%d readings are kept", len(known.Readings))
	}
}

// TestTokenIsRefreshedOnce: refresh tokens can be used once, and all calls at all replicas find the token that one of them has got.
func TestTokenIsRefreshedOnce(t *testing.T) {
	u := newUpstream(t, 10*time.Second) // a client refreshes such a token before each request
	address, login := newStore(t), newProvider(t)
	first, second := startGateway(t, u, login, "-store", address), startGateway(t, u, login, "-store", address)
	first.connectAccount(t, "ada")
	var calls sync.WaitGroup
	for _, g := range []*team{first, second} {
		session := g.offersTools(t, "ada")
		for range 4 {
			calls.Go(func() {
				for range 5 {
					if who, err := whoami(t.Context(), session); err != nil || who != accountOf("ada") {
						t.Errorf("the call is one of %q: %v", who, err)
					}
				}
			})
		}
	}
	calls.Wait()
	if n := u.refreshed.Load(); n == 0 {
		t.Error("no token was refreshed")
	}
}

// TestNoCallUsesAnotherAccount: many people call at the same time at several replicas, while accounts are connected again and replicas
// are killed. Each answer names the account of the caller. DOVETAIL_ACCOUNT_CALLS is the number of calls.
func TestNoCallUsesAnotherAccount(t *testing.T) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("DOVETAIL_ACCOUNT_CALLS"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	const people = 6
	u := newUpstream(t, time.Minute)
	address, login := newStore(t), newProvider(t)
	replicas := []*team{startGateway(t, u, login, "-store", address), startGateway(t, u, login, "-store", address)}
	names := make([]string, people)
	for i := range names {
		names[i] = fmt.Sprint("person", i)
		replicas[i%len(replicas)].connectAccount(t, names[i])
	}
	var victim atomic.Pointer[team]
	launch := func() (kill func()) {
		g, kill := launchedGateway(t, u, login, "-store", address)
		victim.Store(g)
		return kill
	}
	kill := launch()
	for _, g := range replicas {
		g.offersTools(t, names[0])
	}
	var made, failed atomic.Int64
	due := make(chan struct{}, 1) // a kill
	var callers sync.WaitGroup
	for i, name := range names {
		for j, era := range []client.Era{client.Modern, client.Legacy} {
			at := replicas[(i+j)%len(replicas)].as(t, name)
			session := at.connect(t, &client.Options{Era: era})
			callers.Go(func() {
				for n := made.Add(1); n <= int64(count); n = made.Add(1) {
					if who, err := whoami(t.Context(), session); who != accountOf(name) {
						if err == nil {
							t.Errorf("a call of %s is one of %q", name, who)
						}
						failed.Add(1) // the account was connected again during the call
					}
					if n%500 == 0 {
						select {
						case due <- struct{}{}:
						default:
						}
					}
					if n%50 == 0 { // and at the replica that is killed
						killed := victim.Load().as(t, name)
						status, text, err := killed.do(t.Context(), killed.token, http.MethodPost, "/api/v1/rest/tools/notes__whoami", `{}`)
						if err == nil && status == http.StatusOK && !strings.Contains(string(text), accountOf(name)) {
							t.Errorf("a call of %s at a replica that is killed: %s", name, text)
						}
					}
				}
			})
		}
	}
	finished := make(chan struct{})
	go func() {
		callers.Wait()
		close(finished)
	}()
	for i, running := 0, true; running; i++ {
		select {
		case <-finished:
			running = false
		case <-due:
			kill()
			kill = launch()
			_, _, _ = replicas[i%len(replicas)].browser(t, names[i%people]).press(t.Context(), "connect", "notes") // calls of the person may fail
		}
	}
	kill()
	t.Logf("%d calls, of which %d failed since their account was replaced", count, failed.Load())
	if failed.Load() > int64(count/4) {
		t.Errorf("%d of %d calls have failed", failed.Load(), count)
	}
}

// launchedGateway is startGateway in a process of its own.
func launchedGateway(t *testing.T, u *upstream, login issuer, flags ...string) (g *team, kill func()) {
	t.Helper()
	p := &program{folder: t.TempDir()}
	kill = p.launch(t, gatewayLine(t, p, u, login, flags...))
	return &team{p, login}, kill
}

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

const (
	loginPath    = "/login"
	callbackPath = "/login/callback"
	logoutPath   = "/logout"
	// browserCookie has who is logged in with a browser, and loginCookie a login that is not finished.
	browserCookie, loginCookie = "dovetail-person", "dovetail-login"
	// browserLife is how long a person is logged in, and loginLife how long a login may take.
	browserLife, loginLife = 8 * time.Hour, 10 * time.Minute
	// providerTimeout bounds the requests of a login to the provider.
	providerTimeout = 15 * time.Second
	// maxCookie is the maximum size of a cookie that browsers keep, in bytes.
	maxCookie = 4000
)

// peopleOptions are the flags about people who log in with a browser.
type peopleOptions struct {
	clientID, secretEnv, scopes string
	operators, viewers          []string // roles
}

func (o *peopleOptions) flags(flags *flagSet) {
	flags.StringVar(&o.clientID, "client-id", "", "the client `ID` of this program at -issuer, with the redirect URI of -url and /login/callback: people log in with a browser to open the console and to approve calls, in place of links with tokens")
	flags.StringVar(&o.secretEnv, "client-secret-env", "", "the environment `variable` with the client secret of -client-id")
	flags.StringVar(&o.scopes, "login-scopes", "openid", "the `scopes`, separated by spaces, that a login in a browser requests. The ID token must have the claims of -name-claim and -roles-claim")
	roles := func(list *[]string) func(string) error {
		return func(text string) error {
			*list = strings.Split(text, ",")
			if slices.Contains(*list, "") {
				return errors.New("expected roles, separated by commas")
			}
			return nil
		}
	}
	flags.Func("operators", "the `roles`, separated by commas, of people who see everything in the console, act there, and approve calls of others", roles(&o.operators))
	flags.Func("viewers", "the `roles`, separated by commas, of people who see names, times and outcomes in the console", roles(&o.viewers))
}

func (o *peopleOptions) check(issuer string) error {
	switch {
	case o.clientID == "" && (o.secretEnv != "" || o.scopes != "openid" || o.operators != nil || o.viewers != nil):
		return misuse("-client-secret-env, -login-scopes, -operators and -viewers are for -client-id")
	case o.clientID != "" && issuer == "":
		return misuse("-client-id is for -issuer, at which people log in")
	case o.clientID != "" && o.operators == nil:
		return misuse("-client-id: expected -operators, the roles of people who use the console and approve calls")
	case o.secretEnv != "" && os.Getenv(o.secretEnv) == "":
		return misuse("-client-secret-env: the variable %s has no value", o.secretEnv)
	}
	return nil
}

// registration returns the registration of this program at the issuer.
func (o *peopleOptions) registration(issuer string) oauth.Registration {
	r := oauth.Registration{Issuer: issuer, ClientID: o.clientID}
	if o.secretEnv != "" {
		r.Secret = oauth.Secret(os.Getenv(o.secretEnv))
	}
	return r
}

// people are those who log in at -issuer in a browser.
type people struct {
	opts     *peopleOptions
	callers  *callers
	provider *oauth.Provider
	key      *state.Key // seals cookies
	base     string     // the URL of this program
	guard    *httpguard.Guard
	origin   *http.CrossOriginProtection
	logger   *slog.Logger
}

// newPeople returns the people of the flags. base is the URL at which browsers reach this program.
func newPeople(o *serveOptions, of *callers, key *state.Key, base string, logger *slog.Logger) (*people, error) {
	p := &people{opts: &o.people, callers: of, key: key, base: base, origin: http.NewCrossOriginProtection(), logger: logger}
	if at, err := url.Parse(base); err != nil || at.Path != "" {
		return nil, misuse("-url: with -client-id, expected a URL without a path")
	}
	issuer, err := url.Parse(o.callers.issuer)
	if err != nil {
		return nil, misuse("-issuer: %v", err)
	}
	client, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: isLoopback(issuer.Hostname()), AllowNetworks: o.logins.networks})
	if err != nil {
		return nil, err
	}
	if p.provider, err = client.Provider(o.people.registration(o.callers.issuer), "", ""); err != nil {
		return nil, misuse("-issuer, -client-id: %v", err)
	}
	if err := p.origin.AddTrustedOrigin(base); err != nil { // a proxy may change the host
		return nil, misuse("-url: %v", err)
	}
	p.guard, err = httpguard.NewGuard(o.hosts, o.origins())
	return p, err
}

// route adds the pages of a login.
func (p *people) route(mux *http.ServeMux) {
	mux.HandleFunc(loginPath, p.logIn)
	mux.HandleFunc(callbackPath, p.finish)
	mux.HandleFunc("POST "+logoutPath, p.logOut)
}

// A browserLogin is who is logged in with a browser.
type browserLogin struct {
	ID      string    `json:"id"` // random
	Name    string    `json:"name"`
	Roles   []string  `json:"roles"` // of those in flags
	Expires time.Time `json:"expires"`
}

// A pendingLogin is a login that is not finished.
type pendingLogin struct {
	Verifier string `json:"verifier"`
	Nonce    string `json:"nonce"`
	To       string `json:"to"` // a path of this program
}

// login returns who is logged in with the browser that has sent a request.
func (p *people) login(r *http.Request) (*browserLogin, bool) {
	var login browserLogin
	if !p.open(r, browserCookie, "", &login) || !time.Now().Before(login.Expires) {
		return nil, false
	}
	return &login, true
}

// require returns a handler for people who are logged in. It sends other browsers to the login, and then back.
func (p *people) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := p.login(r); ok {
			next.ServeHTTP(w, r)
			return
		}
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == "" {
			http.Redirect(w, r, loginPath+"?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
			return
		}
		http.Error(w, "log in at "+loginPath, http.StatusUnauthorized)
	})
}

// requireRole is [people.require] for operators and viewers.
func (p *people) requireRole(next http.Handler) http.Handler {
	return p.require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := p.viewer(r); !ok {
			http.Error(w, fmt.Sprintf("%s has none of the roles that -operators and -viewers name", who.Name), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// viewer returns an operator or viewer of the console.
func (p *people) viewer(r *http.Request) (console.Person, bool) {
	login, ok := p.login(r)
	if !ok {
		return console.Person{}, false
	}
	who := console.Person{Name: login.Name, Operator: login.has(p.opts.operators), Expires: login.Expires}
	return who, who.Operator || login.has(p.opts.viewers)
}

// approver returns an operator, who approves calls of others.
func (p *people) approver(r *http.Request) (channel.Person, bool) {
	login, ok := p.login(r)
	if !ok || !login.has(p.opts.operators) {
		return channel.Person{}, false
	}
	return channel.Person{Name: login.Name, Principals: []string{login.Name, console.PrincipalPrefix + login.Name}, Expires: login.Expires}, true
}

// has reports whether the person has one of the roles.
func (l *browserLogin) has(roles []string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(l.Roles, role) })
}

// logIn sends a browser to the provider. The parameter to is the path to which it returns.
func (p *people) logIn(w http.ResponseWriter, r *http.Request) {
	if !p.guard.Admit(w, r, http.MethodGet) {
		return
	}
	login := pendingLogin{Verifier: oauth2.GenerateVerifier(), Nonce: rand.Text(), To: localPath(r.URL.Query().Get("to"))}
	state := rand.Text()
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	to, err := p.provider.AuthorizationURL(ctx, oauth2.Config{RedirectURL: p.base + callbackPath, Scopes: strings.Fields(p.opts.scopes)}, state,
		oauth2.S256ChallengeOption(login.Verifier), oauth2.SetAuthURLParam("nonce", login.Nonce))
	if err == nil {
		err = p.set(w, r, loginCookie, state, login, loginLife)
	}
	if err != nil {
		p.logger.Error("a login in a browser cannot begin", "error", err)
		http.Error(w, "the login cannot begin: the log of this program says why", http.StatusBadGateway)
		return
	}
	redirect(w, r, to)
}

// finish receives the response of the provider.
func (p *people) finish(w http.ResponseWriter, r *http.Request) {
	if !p.guard.Admit(w, r, http.MethodGet) {
		return
	}
	response, err := url.ParseQuery(r.URL.RawQuery)
	state := response.Get("state")
	var login pendingLogin
	if err != nil || state == "" || !p.open(r, loginCookie, state, &login) {
		http.Error(w, "the login was not started in this browser, or has taken too long: start again at "+loginPath, http.StatusBadRequest)
		return
	}
	p.drop(w, loginCookie)
	who, err := p.identify(r.Context(), response, state, &login)
	if err == nil {
		err = p.set(w, r, browserCookie, "", who, browserLife)
	}
	if err != nil {
		p.logger.Warn("a login in a browser has failed", "error", err)
		http.Error(w, "the login has failed: the log of this program says why. Start again at "+loginPath, http.StatusForbidden)
		return
	}
	p.logger.Info("a person has logged in", "person", who.Name, "roles", who.Roles)
	redirect(w, r, login.To)
}

// identify returns who has logged in.
func (p *people) identify(ctx context.Context, response url.Values, state string, login *pendingLogin) (*browserLogin, error) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	token, err := p.provider.Exchange(ctx, response, state, login.Verifier, p.base+callbackPath)
	if err != nil {
		return nil, err
	}
	grant, err := p.provider.Identity(ctx, token, login.Nonce)
	if err != nil {
		return nil, err
	}
	if grant == nil {
		return nil, errors.New("the provider has sent no ID token: -login-scopes must contain openid")
	}
	who, err := p.callers.callerOf(grant)
	if err != nil {
		return nil, err
	}
	p.callers.remember(ctx, who) // for the calls that the person makes in the console
	named := slices.Concat(p.opts.operators, p.opts.viewers)
	return &browserLogin{
		ID: newID(), Name: who.principal, Expires: time.Now().Add(browserLife),
		Roles: slices.DeleteFunc(slices.Clone(who.roles), func(role string) bool { return !slices.Contains(named, role) }),
	}, nil
}

// logOut ends the login in a browser. The login at the provider goes on.
func (p *people) logOut(w http.ResponseWriter, r *http.Request) {
	if !p.guard.Admit(w, r, http.MethodPost) {
		return
	}
	if err := p.origin.Check(r); err != nil {
		http.Error(w, "the form did not come from this site", http.StatusForbidden)
		return
	}
	p.drop(w, browserCookie)
	_, _ = fmt.Fprintln(w, "logged out")
}

// set sets a cookie with a sealed value, for a binding.
func (p *people) set(w http.ResponseWriter, r *http.Request, name, binding string, value any, life time.Duration) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	sealed, err := p.key.Seal(r.Context(), text, []byte(name+" "+binding), time.Now().Add(life))
	if err != nil {
		return err
	}
	if len(sealed) > maxCookie {
		return fmt.Errorf("a cookie of %d bytes: expected a shorter name of the person, or a shorter path", len(sealed))
	}
	http.SetCookie(w, p.cookie(name, sealed, life))
	return nil
}

// drop deletes a cookie.
func (p *people) drop(w http.ResponseWriter, name string) {
	http.SetCookie(w, p.cookie(name, "", -time.Second))
}

// open opens a cookie for a binding, and reports whether there is one that is valid.
func (p *people) open(r *http.Request, name, binding string, value any) bool {
	cookie, err := r.Cookie(p.cookieName(name))
	if err != nil {
		return false
	}
	text, err := p.key.Open(r.Context(), cookie.Value, []byte(name+" "+binding), time.Now())
	return err == nil && json.Unmarshal(text, value) == nil
}

// cookie returns a cookie for this origin that scripts do not see, and that other sites send only with links.
func (p *people) cookie(name, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure is set for an https URL
		Name: p.cookieName(name), Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: p.isSecure(), SameSite: http.SameSiteLaxMode,
	}
}

// cookieName returns the name of a cookie, which with https no other host can set.
func (p *people) cookieName(name string) string {
	if p.isSecure() {
		return "__Host-" + name
	}
	return name
}

func (p *people) isSecure() bool { return strings.HasPrefix(p.base, "https://") }

// localPath returns a path of this program, or that of the console for anything else.
func localPath(to string) string {
	// Browsers read // and /\ as the beginning of a host. Parse refuses control characters, which they leave out.
	if u, err := url.Parse(to); err == nil && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.Contains(to, `\`) {
		return u.RequestURI()
	}
	return "/console/"
}

// redirect sends a browser to a URL, without an address from which it came.
func redirect(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

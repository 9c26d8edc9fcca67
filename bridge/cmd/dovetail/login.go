package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// loginOptions are the flags about logins.
type loginOptions struct {
	clientID, secretEnv string
	redirectPort        uint16
	networks            []netip.Prefix
}

func (o *loginOptions) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.clientID, "client-id", "", "the client `ID` of an existing registration at the authorization server, instead of the one in the file or a new one")
	flags.StringVar(&o.secretEnv, "client-secret-env", "", "the `name` of an environment variable with the client secret of the registration")
	flags.Func("redirect-port", "the `port` of the redirect URI of a login, http://127.0.0.1:PORT/callback; by default any", func(text string) error {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("expected a port from 1 to %d", math.MaxUint16)
		}
		o.redirectPort = uint16(port)
		return nil
	})
	o.networkFlag(flags)
}

func (o *loginOptions) networkFlag(flags *flag.FlagSet) {
	flags.Func("allow-network", "a `network` that is not public, such as 10.0.0.0/8, in which logins and authorization servers may be; repeatable", func(text string) error {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return errors.New("expected a network such as 10.0.0.0/8 or fd00::/8")
		}
		o.networks = append(o.networks, network.Masked())
		return nil
	})
}

// ofOneServer reports whether there are flags that are about one server.
func (o *loginOptions) ofOneServer() bool {
	return o.clientID != "" || o.secretEnv != "" || o.redirectPort != 0
}

// client returns a client for logins at a server, with the tokens of earlier runs.
func (o *loginOptions) client(server *config.Resolved, flow oauth.Flow) (*oauth.Client, error) {
	u, ok := loginAddress(server)
	if !ok {
		return nil, misuse("a login is for a server at a URL that begins with http:// or https://")
	}
	registration := registrationOf(server)
	if o.clientID != "" {
		registration = oauth.Registration{ClientID: o.clientID}
	}
	if o.secretEnv != "" {
		if registration.Secret = oauth.Secret(os.Getenv(o.secretEnv)); registration.Secret == "" {
			return nil, misuse("-client-secret-env: the variable %.100q is not set", o.secretEnv)
		}
		if registration.ClientID == "" {
			return nil, misuse("-client-secret-env needs -client-id")
		}
	}
	store, err := tokenStore()
	if err != nil {
		return nil, err
	}
	return o.newClient(server, u, registration, flow, store)
}

// clientOf returns a client for logins at a server, with the tokens in a store.
func (o *loginOptions) clientOf(server *config.Resolved, flow oauth.Flow, store oauth.TokenStore) (*oauth.Client, error) {
	u, ok := loginAddress(server)
	if !ok {
		return nil, fmt.Errorf("%s: a login is for a server at a URL that begins with http:// or https://", server.Alias)
	}
	return o.newClient(server, u, registrationOf(server), flow, store)
}

// registrationOf returns the registration in a file. Without one, it has no ID.
func registrationOf(server *config.Resolved) oauth.Registration {
	return oauth.Registration{ClientID: server.ClientID.Reveal(), Secret: oauth.Secret(server.ClientSecret.Reveal()), Issuer: server.Issuer.Reveal()}
}

// newClient returns a client. A registration without an ID is none.
func (o *loginOptions) newClient(server *config.Resolved, u *url.URL, registration oauth.Registration, flow oauth.Flow, store oauth.TokenStore) (*oauth.Client, error) {
	var scopes []string
	for _, scope := range server.Scopes {
		scopes = append(scopes, scope.Reveal())
	}
	opts := &oauth.ClientOptions{
		Name: "Dovetail", Store: store, Flow: flow, Scopes: scopes,
		AllowLoopback: isLoopback(u.Hostname()), AllowNetworks: o.networks, Proxy: http.ProxyFromEnvironment,
	}
	if registration.ClientID != "" {
		opts.Registrations = []oauth.Registration{registration}
	}
	return oauth.NewClient(opts)
}

// loginAddress returns the URL of a server at which a login is possible.
func loginAddress(server *config.Resolved) (u *url.URL, ok bool) {
	u, err := url.Parse(server.URL.Reveal())
	return u, err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// logIn obtains a token for the target if -login is set.
func (t *target) logIn(ctx context.Context, stderr io.Writer) error {
	if !t.login {
		return nil
	}
	if err := t.resolve(ctx); err != nil {
		return err
	}
	flow := &oauth.CodeFlow{
		Receiver: &oauth.LoopbackReceiver{Port: cmp.Or(t.logins.redirectPort, uint16(t.resolved.CallbackPort))},
		Open: func(ctx context.Context, to string) error {
			fmt.Fprintf(stderr, "a browser opens to log in; if none does, open %s\n", shownURL(to))
			_ = oauth.OpenBrowser(ctx, to) // the user opens the printed URL instead
			return nil
		},
	}
	var err error
	if t.tokens, err = t.logins.client(t.resolved, flow); err != nil {
		return err
	}
	return t.tokens.Login(ctx, t.resolved.URL.Reveal())
}

// logoutVerb is the verb that ends a login. It does not connect to the server.
const logoutVerb = "logout"

// logOut deletes the token of the target, and revokes it at its authorization server.
func (c *invocation) logOut(ctx context.Context, stdout io.Writer) error {
	if c.target.login {
		return misuse("-login and logout exclude each other")
	}
	if err := c.target.resolve(ctx); err != nil {
		return err
	}
	tokens, err := c.target.logins.client(c.target.resolved, &oauth.SavedTokens{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := tokens.Logout(ctx, c.target.resolved.URL.Reveal()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "{}")
	return err
}

// A savedLogin authorizes requests with the token of an earlier -login. Without one, its error says what the server
// needs.
type savedLogin struct {
	options *loginOptions
	server  *config.Resolved
	headers []string // names of those that are configured
	command string   // that logs in

	mu     sync.Mutex
	tokens *oauth.Client // nil until a token was saved
}

// saved returns the authorizer for a server, nil if no login is possible there, or headers has credentials in its place.
// headers are the names of all configured headers, and command is how to log in.
func (o *loginOptions) saved(server *config.Resolved, headers []string, command string) httptransport.Authorizer {
	if _, ok := loginAddress(server); !ok || slices.ContainsFunc(headers, func(name string) bool { return strings.EqualFold(name, "Authorization") }) {
		return nil
	}
	return &savedLogin{options: o, server: server, headers: headers, command: command}
}

// headersOf returns the names of the headers in a configuration.
func headersOf(server *config.Resolved) []string { return slices.Sorted(maps.Keys(server.Headers)) }

// client returns the client for the saved tokens, nil if there are none.
func (s *savedLogin) client() (*oauth.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens != nil || !hasTokens() {
		return s.tokens, nil
	}
	var err error
	s.tokens, err = s.options.client(s.server, &oauth.SavedTokens{})
	return s.tokens, err
}

func (s *savedLogin) Authorize(ctx context.Context, server *url.URL, req *http.Request) error {
	tokens, err := s.client()
	if tokens == nil {
		return err
	}
	return tokens.Authorize(ctx, server, req)
}

func (s *savedLogin) Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error) {
	tokens, err := s.client()
	switch {
	case err != nil:
		return false, err
	case tokens != nil:
		again, err = tokens.Challenged(ctx, server, req, res)
	case res.StatusCode == http.StatusUnauthorized:
		err = oauth.ErrLoginRequired
	}
	if errors.Is(err, oauth.ErrLoginRequired) {
		refused := &loginError{status: &httptransport.StatusError{Method: req.Method, Status: res.StatusCode, Header: http.Header{"Www-Authenticate": res.Header["Www-Authenticate"]}}, headers: s.headers}
		if tokens != nil || offersLogin(ctx, server, res.Header["Www-Authenticate"]) {
			refused.command = s.command
		}
		err = refused
	}
	return again, err
}

// offersLogin reports whether a server names an authorization server, or has metadata at one of the well-known places of
// RFC 9728, RFC 8414 and OpenID Connect.
func offersLogin(ctx context.Context, server *url.URL, challenges []string) bool {
	if strings.Contains(strings.Join(challenges, ","), "resource_metadata") {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	origin := &url.URL{Scheme: server.Scheme, Host: server.Host}
	for _, place := range []string{
		"oauth-protected-resource" + strings.TrimSuffix(server.Path, "/"), "oauth-protected-resource", "oauth-authorization-server", "openid-configuration",
	} {
		if isJSON(ctx, origin.JoinPath(".well-known", place).String()) {
			return true
		}
	}
	return false
}

// isJSON reports whether there is a JSON document at a URL.
func isJSON(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false
	}
	web := httptransport.NewClient(func(settings *http.Transport) { settings.DisableKeepAlives = true })
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := web.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
}

// A loginError says what a server needs that has refused a request.
type loginError struct {
	status  *httptransport.StatusError
	headers []string // names of the configured headers
	command string   // that logs in; "" if the server offers no login
}

func (e *loginError) Error() string {
	switch {
	case len(e.headers) > 0 && e.command == "":
		return fmt.Sprintf("the server refuses the credentials in the header %s (status %d); check them", peertext.Quote(strings.Join(e.headers, ", ")), e.status.Status)
	case len(e.headers) > 0:
		return fmt.Sprintf("the server refuses the credentials in the header %s (status %d); check them, or log in: run %s", peertext.Quote(strings.Join(e.headers, ", ")), e.status.Status, e.command)
	case e.command == "":
		return fmt.Sprintf("the server demands a token or key (status %d) and offers no login; give it with -header-env, or in the headers of the configuration file", e.status.Status)
	}
	return fmt.Sprintf("the server demands a login (status %d): run %s", e.status.Status, e.command)
}

func (e *loginError) Unwrap() error { return e.status }

// loginCommand returns the command that logs in at a server of a configuration file, or at another target if file is
// "".
func loginCommand(file, target string) string {
	words := []string{"dovetail", "-login"}
	if file != "" {
		words = append(words, "-config", file)
	}
	return commandLine(append(words, "info", target)...)
}

// commandLine quotes words for a POSIX shell.
func commandLine(words ...string) string {
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n'\"\\$&|;<>()*?`!#~") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// isLoopback reports whether a host is this machine. Its authorization server may be, too.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// tokenStore returns the token file in the user's cache folder. Its key is in the
// configuration folder, so that a copy of the cache does not reveal tokens.
func tokenStore() (oauth.LockingStore, error) {
	caches, err := folder(os.UserCacheDir())
	if err != nil {
		return nil, err
	}
	configuration, err := folder(os.UserConfigDir())
	if err != nil {
		return nil, err
	}
	key, err := fileKey(filepath.Join(configuration, "key"))
	if err != nil {
		return nil, err
	}
	return oauth.NewFileStore(filepath.Join(caches, tokenFile), key)
}

// tokenFile is the name of the token file.
const tokenFile = "tokens"

// hasTokens reports whether there is a token file.
func hasTokens() bool {
	caches, err := os.UserCacheDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(caches, programFolder, tokenFile))
	return err == nil
}

// programFolder is the name of the folders of this program.
const programFolder = "dovetail"

// folder creates the folder of this program below another, with mode 0700.
func folder(within string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	own := filepath.Join(within, programFolder)
	return own, os.MkdirAll(own, 0o700)
}

// fileKey reads the key or creates it. If two programs create it concurrently, one fails.
func fileKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(key)
	return key, errors.Join(err, file.Close())
}

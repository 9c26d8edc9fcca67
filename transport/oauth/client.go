package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// A Client obtains access tokens and adds them to requests. It implements the Authorizer
// interfaces of packages streamable, sse and ws. Use [NewClient].
//
// One client serves any number of connections and servers. Its methods may be called
// concurrently. There is nothing to close.
//
// Concurrent requests for one server share a login and its result, which may be a refusal.
// A login is canceled only when its last waiter leaves. Logins for servers with different
// authorization servers do not wait for each other.
type Client struct {
	options *ClientOptions // a pointer, so that fmt does not print it as part of another struct
	guard   *netguard.Guard
	http    *http.Client

	servers *lru.Cache[string, *knownServer] // by serverKey; the store holds what is evicted
	nonces  *lru.Cache[string, string]       // for DPoP proofs, by the origin of the authorization server
	calls   sharedCalls[struct{}]            // logins and refreshes
	locks   keyedMutex                       // of servers and issuers
}

// NewClient returns a client. It returns an error if the options are invalid.
func NewClient(opts *ClientOptions) (*Client, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	guard := options.guard()
	return &Client{
		options: &options, guard: guard, http: newHTTPClient(guard),
		servers: newLRU[string, *knownServer](maxServers), nonces: newLRU[string, string](maxServers),
	}, nil
}

// Format prints a constant, so that no secret is printed.
func (c *Client) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.Client") }

// Login obtains a token for the server at a URL, unless the client has a valid one. A
// program calls it before it dials, so that the time that a person needs to log in does
// not count against the timeouts of a connection.
func (c *Client) Login(ctx context.Context, server string) error {
	u, known, err := c.parseServer(server)
	if err != nil {
		return err
	}
	return c.satisfy(ctx, known, u, tokenChallenge{}, "")
}

// Logout deletes the token for the server at a URL, also from the store. Then it revokes the
// refresh token and the access token at their authorization server (RFC 7009), if that supports
// it. This takes at most 15 seconds. If the error is a [*RevocationError], the tokens are
// deleted here, and may still be valid.
func (c *Client) Logout(ctx context.Context, server string) error {
	u, known, err := c.parseServer(server)
	if err != nil {
		return err
	}
	unlock, err := c.lockServer(ctx, known, u)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := c.deleteCredentials(ctx, known, u)
	if err != nil || old == nil {
		return err
	}
	return c.revoke(ctx, old)
}

// deleteCredentials deletes the credentials of a server and returns them. The caller holds the
// server's lock.
func (c *Client) deleteCredentials(ctx context.Context, known *knownServer, server *url.URL) (*credentials, error) {
	unlock, err := c.lockStore(ctx, known) // a refresh in another process would save the token again
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := c.load(ctx, known, server); err != nil {
		return nil, err
	}
	old := known.credentials.Load()
	return old, c.save(ctx, known, nil)
}

func (c *Client) parseServer(server string) (*url.URL, *knownServer, error) {
	u, err := httpclient.ParseURL(server)
	if err != nil {
		return nil, nil, fmt.Errorf("oauth: %w", err)
	}
	known, err := c.knownServer(u)
	return u, known, err
}

// Authorize adds the token for a server to a request, if there is one, and a DPoP proof
// if the token is bound to a key. A request to another origin than the server's is not
// changed.
func (c *Client) Authorize(ctx context.Context, server *url.URL, req *http.Request) error {
	if !httpclient.SameOrigin(server, req.URL) {
		return nil
	}
	known, err := c.knownServer(server)
	if err != nil {
		return nil // a server that needs a token answers with a challenge
	}
	current, err := c.current(ctx, known, server)
	if err != nil || current == nil {
		return err
	}
	current.uses.Add(1)
	if current.key == nil {
		req.Header.Set("Authorization", "Bearer "+current.AccessToken)
		return nil
	}
	nonce := ""
	if p := known.nonce.Load(); p != nil {
		nonce = *p
	}
	proof, err := current.key.prove(c.options.Clock(), req.Method, req.URL, nonce, current.AccessToken)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "DPoP "+current.AccessToken)
	req.Header.Set("DPoP", proof)
	return nil
}

// Challenged obtains the token that a response with status 401 or 403 demands, and reports
// whether the request can be sent again. The error is one of this package, of the network
// or of ctx.
func (c *Client) Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error) {
	if !httpclient.SameOrigin(server, req.URL) {
		return false, nil
	}
	challenge := readChallenge(res)
	if challenge.status == http.StatusForbidden && challenge.params["error"] != codeInsufficientScope {
		return false, nil
	}
	known, err := c.knownServer(server)
	if err != nil {
		return false, err
	}
	if nonce := nonceOf(res.Header); nonce != "" {
		known.nonce.Store(&nonce)
		if challenge.params["error"] == codeUseNonce && challenge.status == http.StatusUnauthorized {
			return true, nil
		}
	}
	_, sent, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	err = c.satisfy(ctx, known, server, challenge, sent)
	if errors.Is(err, errNewTokenRefused) {
		return false, nil
	}
	return err == nil, err
}

var errNewTokenRefused = errors.New("the server refuses a token that was just issued")

// satisfy obtains a token that satisfies a challenge and differs from the one that was
// sent. It returns errNewTokenRefused if another token would be refused as well.
func (c *Client) satisfy(ctx context.Context, known *knownServer, server *url.URL, challenge tokenChallenge, sent string) error {
	return c.share(ctx, known, server, challenge.key(), func(ctx context.Context) error {
		current := known.credentials.Load()
		switch {
		case c.isValid(current) && current.AccessToken != sent:
			return nil // another request has obtained it
		case current != nil && current.AccessToken == sent && challenge.status == http.StatusUnauthorized && current.isNew && current.uses.Load() <= 1:
			return errNewTokenRefused
		}
		return c.obtain(ctx, known, server, challenge)
	})
}

// A tokenChallenge is what a response with status 401 or 403 demands. The zero value
// demands any token.
type tokenChallenge struct {
	status int
	params map[string]string
	dpop   bool // the server accepts only tokens that are bound to a key
}

// readChallenge reads the challenges of a response. Of several challenges with the scheme Bearer,
// the first that has a parameter counts.
func readChallenge(res *http.Response) tokenChallenge {
	t := tokenChallenge{status: res.StatusCode}
	challenges, _ := ParseChallenges(res.Header["Www-Authenticate"])
	bearer := false
	for _, challenge := range challenges {
		switch {
		case challenge.Is("Bearer"):
			if t.params == nil || t.dpop && !bearer {
				t.params = make(map[string]string)
			}
			for name, value := range challenge.Params {
				if _, known := t.params[name]; !known {
					t.params[name] = value
				}
			}
			bearer = true
		case challenge.Is("DPoP"):
			if t.params == nil || challenge.Params["error"] != "" {
				t.params = challenge.Params
			}
			t.dpop = true
		}
	}
	t.dpop = t.dpop && !bearer
	return t
}

// key is equal for challenges that the same token satisfies.
func (t tokenChallenge) key() string {
	if t.status != http.StatusForbidden {
		return "login"
	}
	return "scopes " + sortedScope(t.scopes())
}

func (t tokenChallenge) scopes() []string { return syntax.SplitScope(t.params["scope"]) }

func sortedScope(scopes []string) string {
	return strings.Join(slices.Sorted(slices.Values(scopes)), " ")
}

// nonceOf returns the nonce that a server demands in the next DPoP proof, "" if none.
func nonceOf(header http.Header) string {
	nonce := header.Get("DPoP-Nonce")
	if len(nonce) > maxNonce {
		return ""
	}
	return nonce
}

// checkServer refuses servers to which no token may be sent.
func (c *Client) checkServer(server *url.URL) error {
	if server.Scheme == "https" || c.guard.Check(plain(server).String()) == nil {
		return nil
	}
	return &URLError{URL: shown(server), Reason: "tokens are sent over https only, or over http to this machine with ClientOptions.AllowLoopback and to the hosts of ClientOptions.AllowHTTP"}
}

// serverKey identifies a server in the store and in logs. It contains a hash of the query,
// because the query may hold a secret.
func serverKey(server *url.URL) string {
	key := plain(server).String()
	if server.RawQuery != "" {
		hash := sha256.Sum256([]byte(server.RawQuery))
		key += "?" + base64.RawURLEncoding.EncodeToString(hash[:])
	}
	return key
}

// plain returns a URL without user, query and fragment.
func plain(u *url.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
}

// shown returns a URL as errors show it.
func shown(u *url.URL) string { return plain(u).String() }

// ClientOptions configure a [Client]. With the zero value, a person logs in with the
// system's browser, and tokens are kept in memory.
type ClientOptions struct {
	// Flow is how tokens are obtained. Default a [*CodeFlow].
	Flow Flow
	// Name is the name of the application in dynamic registrations. Default "Dovetail".
	Name string
	// Registrations are existing registrations at authorization servers. They are preferred
	// to other ways of registering.
	Registrations []Registration
	// MetadataURL is the URL of the application's Client ID Metadata Document: an https URL
	// with a path. It is the client ID at authorization servers that support such documents.
	// The document should list the redirect URI of [CodeFlow].Receiver.
	MetadataURL string
	// Scopes are requested in addition to those that a server demands.
	Scopes []string
	// NoRefresh disables refresh tokens: neither the scope offline_access nor a registration
	// requests them.
	NoRefresh bool
	// NoResource omits the parameter resource (RFC 8707) from authorization and token requests. It is
	// for an authorization server that refuses the parameter, such as Microsoft Entra ID, whose
	// scopes name the resource. A token is then not bound to the server, unless its scopes do that.
	NoResource bool
	// AssumePKCE accepts an authorization server whose metadata have no
	// code_challenge_methods_supported, such as Microsoft Entra ID, which supports PKCE without
	// declaring it. A server that ignores PKCE does not protect the code. Requests always use S256.
	AssumePKCE bool
	// DPoP binds tokens to a key of this client (RFC 9449) and refuses tokens that are not
	// bound. If a server demands bound tokens, the client binds them without this option.
	DPoP bool
	// Store keeps tokens and registrations. Default a store in memory.
	Store TokenStore
	// AllowLoopback allows servers on this machine, also over http. It is for development.
	AllowLoopback bool
	// AllowHTTP lists hosts that are also allowed over http, as in URLs without a port, such as
	// a server in a private network. Everyone on the way to such a host can read and use the
	// tokens. An address that is not public needs AllowNetworks too. The page of a login still
	// needs https.
	AllowHTTP []string
	// AllowNetworks lists networks that are allowed although they are not public, such as a
	// company's own. They still need https, unless AllowHTTP names the host.
	AllowNetworks []netip.Prefix
	// Proxy returns the proxy for a request, nil for none. The proxy is trusted not to
	// connect to private networks. Default no proxy; http.ProxyFromEnvironment uses the
	// environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
	// Logger receives log records, without secrets. Default slog.Default().
	Logger *slog.Logger
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
}

// fetchTimeout bounds each HTTP request, from looking up the name to the last byte.
const fetchTimeout = 10 * time.Second

func (o *ClientOptions) withDefaults() (ClientOptions, error) {
	opts := *cmp.Or(o, &ClientOptions{})
	if opts.Flow == nil {
		opts.Flow = &CodeFlow{}
	}
	if opts.Store == nil {
		opts.Store = NewMemoryStore()
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	opts.Name = cmp.Or(opts.Name, "Dovetail")
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Registrations = slices.Clone(opts.Registrations)
	opts.Scopes = slices.Clone(opts.Scopes)
	return opts, opts.check()
}

func (o *ClientOptions) check() error {
	if o.MetadataURL != "" {
		u, err := url.Parse(o.MetadataURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.Path == "/" || u.User != nil || u.Fragment != "" {
			return errors.New("oauth: expected a MetadataURL that is an https URL with a path, without user and fragment")
		}
	}
	for i := range o.Registrations {
		if err := o.Registrations[i].check(); err != nil {
			return fmt.Errorf("oauth: Registrations[%d]: %w", i, err)
		}
	}
	if err := syntax.CheckScopes(o.Scopes); err != nil {
		return fmt.Errorf("oauth: Scopes: %w", err)
	}
	return o.Flow.check(o)
}

// guard returns the guard of all HTTP requests.
func (o *ClientOptions) guard() *netguard.Guard {
	return netguard.New(&netguard.Options{
		AllowLoopback: o.AllowLoopback, AllowHTTP: o.AllowHTTP, Allow: o.AllowNetworks, Resolver: o.Resolver, Proxy: o.Proxy,
		Timeout: fetchTimeout, MaxBody: maxDocument,
	})
}

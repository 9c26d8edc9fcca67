package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/webclient"
)

// A Client gets tokens and shows them to the servers that they are for. One client can
// serve any number of connections and servers; it is safe for concurrent use, and has
// nothing to close. Servers that need something at the same time wait for each other only
// where they have the same authorization server. Nobody logs in twice: who needs a token
// while somebody logs in for it gets what comes of that, a refusal too. A login goes on
// until the last who waits for it has gone.
//
// It is an Authorizer of packages streamable, sse and ws. Use [NewClient].
type Client struct {
	options *ClientOptions // behind a pointer, for fmt not to print what a struct around the client holds
	guard   *netguard.Guard
	http    *http.Client

	servers *roster[*access] // by the URL that is dialled
	issuers *roster[turn]

	mu     sync.Mutex
	nonces map[string]string // for proofs, by the origin of the authorization server
}

// NewClient returns a client. The error is about the options.
func NewClient(opts *ClientOptions) (*Client, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	guard := options.guard()
	return &Client{
		options: &options, guard: guard, http: newHTTPClient(guard), servers: newRoster(maxServers, newAccess),
		issuers: newRoster(maxServers, func(string) turn { return newTurn() }), nonces: make(map[string]string),
	}, nil
}

// Format tells nothing of what the client knows.
func (c *Client) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.Client") }

// Login gets a token for the server at a URL, which is to be dialled later, unless there
// is one that has not ended. It spares the first request the wait, and lets a person log
// in before any of a connection's times begin.
func (c *Client) Login(ctx context.Context, server string) error {
	u, err := webclient.ParseURL(server)
	if err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	a, drop, err := c.access(u)
	if err != nil {
		return err
	}
	defer drop()
	return c.meet(ctx, a, u, demand{}, "")
}

// Logout forgets the token for the server at a URL, in the store too. The authorization
// server is not told.
func (c *Client) Logout(ctx context.Context, server string) error {
	u, err := webclient.ParseURL(server)
	if err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	a, drop, err := c.access(u)
	if err != nil {
		return err
	}
	defer drop()
	leave, err := c.enter(ctx, a, u)
	if err != nil {
		return err
	}
	defer leave()
	return c.keep(ctx, a, nil)
}

// access is what is known of a server, which is remembered until it is dropped.
func (c *Client) access(server *url.URL) (a *access, drop func(), err error) {
	if err := c.checkServer(server); err != nil {
		return nil, nil, err
	}
	a, drop = c.servers.take(serverKey(server))
	return a, drop, nil
}

// enter waits until nobody else changes what is known of a server.
func (c *Client) enter(ctx context.Context, a *access, server *url.URL) (leave func(), err error) {
	if leave, err = a.turn.take(ctx); err != nil {
		return nil, err
	}
	if err := c.recall(ctx, a, server); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// enterIssuer waits until nobody else gets a token from an authorization server.
func (c *Client) enterIssuer(ctx context.Context, issuer string) (leave func(), err error) {
	turn, drop := c.issuers.take(issuer)
	done, err := turn.take(ctx)
	if err != nil {
		drop()
		return nil, err
	}
	return func() { done(); drop() }, nil
}

// checkServer refuses servers that no token may be sent to.
func (c *Client) checkServer(server *url.URL) error {
	if server.Scheme == "https" || c.guard.Check(plain(server).String()) == nil {
		return nil
	}
	return &URLError{URL: shown(server), Reason: "tokens are sent by https only, or to this machine where ClientOptions.AllowLoopback says so"}
}

// serverKey names a server in the store and in logs. Its query, which may hold a secret,
// tells servers apart too.
func serverKey(server *url.URL) string {
	key := plain(server).String()
	if server.RawQuery != "" {
		hash := sha256.Sum256([]byte(server.RawQuery))
		key += "?" + base64.RawURLEncoding.EncodeToString(hash[:])
	}
	return key
}

// plain is a URL without user, query and fragment.
func plain(u *url.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
}

// shown is a URL as an error may repeat it.
func shown(u *url.URL) string { return plain(u).String() }

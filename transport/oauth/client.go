package oauth

import (
	"context"
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
// where they have the same authorization server: nobody logs in twice.
//
// It is an Authorizer of packages streamable, sse and ws. Use [NewClient].
type Client struct {
	options *ClientOptions // behind a pointer, for fmt not to print what a struct around the client holds
	guard   *netguard.Guard
	http    *http.Client

	mu      sync.Mutex
	servers map[string]*access // by the URL that is dialled
	issuers map[string]turn
	nonces  map[string]string // for proofs, by the origin of the authorization server
}

// NewClient returns a client. The error is about the options.
func NewClient(opts *ClientOptions) (*Client, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		options: &options, guard: options.guard(),
		servers: make(map[string]*access), issuers: make(map[string]turn), nonces: make(map[string]string),
	}
	c.http = c.newHTTPClient()
	return c, nil
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
	a, leave, err := c.enter(ctx, u)
	if err != nil {
		return err
	}
	defer leave()
	if known := a.login.Load(); known != nil && !known.endsBefore(c.options.Clock()) {
		return nil
	}
	return c.renew(ctx, a, u, demand{})
}

// Logout forgets the token for the server at a URL, in the store too. The authorization
// server is not told.
func (c *Client) Logout(ctx context.Context, server string) error {
	u, err := webclient.ParseURL(server)
	if err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	a, leave, err := c.enter(ctx, u)
	if err != nil {
		return err
	}
	defer leave()
	return c.keep(ctx, a, nil)
}

// access is what is known of a server. It has never been used before if it is nowhere.
func (c *Client) access(server *url.URL) *access {
	key := serverKey(server)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.servers[key]; a != nil {
		return a
	}
	if len(c.servers) >= maxServers { // the store still knows them
		clear(c.servers)
	}
	a := &access{key: key, turn: newTurn(), stepUps: make(map[string]int)}
	c.servers[key] = a
	return a
}

// enter waits until nobody else changes what is known of a server.
func (c *Client) enter(ctx context.Context, server *url.URL) (*access, func(), error) {
	if err := c.checkServer(server); err != nil {
		return nil, nil, err
	}
	a := c.access(server)
	leave, err := a.turn.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := c.recall(ctx, a); err != nil {
		leave()
		return nil, nil, err
	}
	return a, leave, nil
}

// issuerTurn is whose turn it is to get a token from an authorization server.
func (c *Client) issuerTurn(issuer string) turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.issuers[issuer]
	if !ok {
		if len(c.issuers) >= maxServers {
			clear(c.issuers)
		}
		t = newTurn()
		c.issuers[issuer] = t
	}
	return t
}

// checkServer refuses servers that no token may be sent to.
func (c *Client) checkServer(server *url.URL) error {
	if server.Scheme == "https" || c.guard.Check(plain(server).String()) == nil {
		return nil
	}
	return &URLError{URL: shown(server), Reason: "tokens are sent by https only, or to this machine where ClientOptions.AllowLoopback says so"}
}

// serverKey names a server in the store. Its query may hold a secret.
func serverKey(server *url.URL) string { return plain(server).String() }

// plain is a URL without user, query and fragment.
func plain(u *url.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
}

// shown is a URL as an error may repeat it.
func shown(u *url.URL) string { return plain(u).String() }

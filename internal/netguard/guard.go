package netguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
)

// A Guard fetches by rules. Use [New].
type Guard struct {
	options Options
	direct  *http.Transport
	proxied *http.Transport
	// connecting is called when an address has been admitted, before it is
	// connected to.
	connecting func(addr netip.AddrPort) error
}

// New returns a Guard.
func New(opts *Options) *Guard {
	g := &Guard{options: opts.withDefaults()}
	g.direct = g.newTransport()
	g.direct.DialContext = g.dial
	g.proxied = g.newTransport()
	g.proxied.Proxy = g.proxy
	return g
}

func (g *Guard) newTransport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:        g.options.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		DisableCompression:     true, // a small answer could be a bomb
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Client returns a client that fetches by the rules. Its errors wrap a
// [*RefusedError] where they are the reason, its bodies end with a [*SizeError] when
// they are too long. It has no cookies. The client is the caller's own to change; the
// rules on URLs, addresses and sizes stay.
func (g *Guard) Client() *http.Client {
	return &http.Client{Transport: guarded{g}, CheckRedirect: checkRedirect, Timeout: g.options.Timeout}
}

// Get fetches a URL. limit is how long the body may be, in bytes, if that is less than
// [Options].MaxBody; 0 means that. The error is a [*RefusedError], [*SizeError],
// [*StatusError] or what the network says.
func (g *Guard) Get(ctx context.Context, url string, limit int64) (body []byte, header http.Header, err error) {
	u, err := g.parse(url)
	if err != nil {
		return nil, nil, err
	}
	req := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)}).WithContext(ctx)
	res, err := g.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, nil, &StatusError{Status: res.StatusCode}
	}
	if limit <= 0 {
		limit = g.options.MaxBody
	}
	if err := bound(res, limit); err != nil {
		return nil, nil, err
	}
	body, err = io.ReadAll(res.Body)
	if err != nil {
		return nil, nil, err
	}
	return body, res.Header, nil
}

// Do sends a request by the rules, as the client does. Its errors are without the
// request's URL, whose path and query may hold a secret, unless they are a
// [*RefusedError].
func (g *Guard) Do(req *http.Request) (*http.Response, error) {
	res, err := g.Client().Do(req) //nolint:gosec // this is what checks it
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return nil, outer.Err
	}
	return res, err
}

// guarded is a Guard as a client's transport: the one place that no request gets
// around, however its client was changed.
type guarded struct{ *Guard }

// RoundTrip makes one request.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	transport, err := g.route(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, about(req.URL, err)
	}
	if err := bound(res, g.options.MaxBody); err != nil {
		return nil, err
	}
	return res, nil
}

// route checks a request and says whether it goes through a proxy.
func (g *Guard) route(req *http.Request) (*http.Transport, error) {
	if err := g.checkURL(req.URL); err != nil {
		return nil, err
	}
	if g.options.Proxy == nil {
		return g.direct, nil
	}
	proxy, err := g.options.Proxy(req)
	switch {
	case err != nil:
		return nil, fmt.Errorf("choosing a proxy: %w", err)
	case proxy == nil:
		return g.direct, nil
	}
	return g.proxied, nil
}

// proxy is asked by the transport that does not check addresses, which nothing may go
// through directly.
func (g *Guard) proxy(req *http.Request) (*url.URL, error) {
	proxy, err := g.options.Proxy(req)
	if err == nil && proxy == nil {
		return nil, errNoProxy
	}
	return proxy, err
}

var errNoProxy = errors.New("the request has no proxy any more")

// about adds the URL to the refusal of an address that it led to.
func about(u *url.URL, err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	return &RefusedError{URL: withoutSecrets(u), Reason: refused.Reason}
}

// dial connects to a host, if what its name leads to is admitted.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Resolver: g.options.Resolver,
		// It is called with the address that the name was resolved to, when there is
		// a socket and nothing has been sent.
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return g.admit(host, resolved)
		},
	}
	return dialer.DialContext(ctx, network, address)
}

func (g *Guard) admit(host, resolved string) error {
	to, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("%q is no address to connect to: %w", resolved, err)
	}
	if reason := g.whyNotAddress(to.Addr(), host); reason != "" {
		return &RefusedError{Reason: reason}
	}
	if g.connecting != nil {
		return g.connecting(to)
	}
	return nil
}

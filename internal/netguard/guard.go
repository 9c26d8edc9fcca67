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
	"strings"
	"syscall"
)

// A Guard fetches URLs that are allowed. It is immutable and safe for concurrent use. Use
// [New].
type Guard struct {
	options Options
	direct  *http.Transport
	proxied *http.Transport
	// connecting is called before a connection to an allowed address. It is for tests.
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
		DisableKeepAlives:      g.options.KeepAlive <= 0,
		IdleConnTimeout:        g.options.KeepAlive,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		DisableCompression:     true, // against decompression bombs
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Close closes the idle connections that [Options].KeepAlive has kept. The Guard may still be used.
func (g *Guard) Close() {
	g.direct.CloseIdleConnections()
	g.proxied.CloseIdleConnections()
}

// Client returns a new client that enforces the rules. Its errors wrap a [*RefusedError] if
// a URL or an address is refused. Reading a body that is too long returns a [*SizeError].
// The client has no cookies. The caller may change it; the rules for URLs, addresses and
// sizes remain in force.
func (g *Guard) Client() *http.Client {
	return &http.Client{Transport: guarded{g}, CheckRedirect: checkRedirect, Timeout: g.options.Timeout}
}

// Get fetches a URL. limit is the maximum length of the body, in bytes; it cannot exceed
// [Options].MaxBody, which 0 means. The error is a [*RefusedError], [*SizeError],
// [*StatusError] or a network error.
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

// Do sends a request with a client of the guard. Its errors do not contain the path and the
// query, which may hold a secret, except for the path in a [*RefusedError].
func (g *Guard) Do(req *http.Request) (*http.Response, error) {
	res, err := g.Client().Do(req) //nolint:gosec // the client checks the URL
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return nil, outer.Err
	}
	return res, err
}

// guarded is the transport of a guard's clients. It enforces the rules for every request,
// also after a caller has changed the client.
type guarded struct{ *Guard }

// RoundTrip sends one request.
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
		return nil, withURL(req.URL, err)
	}
	if err := bound(res, g.options.MaxBody); err != nil {
		return nil, err
	}
	return res, nil
}

// route checks a request and returns the transport for it.
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

// proxy is the Proxy of the transport that does not check addresses. It refuses a direct
// connection.
func (g *Guard) proxy(req *http.Request) (*url.URL, error) {
	proxy, err := g.options.Proxy(req)
	if err == nil && proxy == nil {
		return nil, errNoProxy
	}
	return proxy, err
}

var errNoProxy = errors.New("the proxy for the request is gone")

// withURL adds the URL to the refusal of an address.
func withURL(u *url.URL, err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	return &RefusedError{URL: withoutSecrets(u), Reason: refused.Reason}
}

// dial connects to a host, if its address is allowed.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Resolver: g.options.Resolver,
		// Called with the resolved address, after the socket is created and before the
		// connection starts.
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return g.checkResolved(host, resolved)
		},
	}
	return dialer.DialContext(ctx, network, address)
}

func (g *Guard) checkResolved(host, resolved string) error {
	to, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("%q is not an address: %w", resolved, err)
	}
	if reason := g.addressRefusal(to.Addr(), host); reason != "" {
		return &RefusedError{Reason: reason}
	}
	if g.connecting != nil {
		return g.connecting(to)
	}
	return nil
}

// checkRedirect decides whether a client follows a redirect, and with which header. The
// transport checks the URL.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if reason := redirectRefusal(req, via); reason != "" {
		return &RefusedError{URL: withoutSecrets(req.URL), Reason: reason}
	}
	req.Header.Del("Referer") // its query may hold a secret
	if leavesOrigin(req, via) {
		req.Header = harmless(req.Header) //nolint:gosec // these headers are not sensitive
	}
	return nil
}

func redirectRefusal(req *http.Request, via []*http.Request) string {
	first, from := via[0], via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return "there were too many redirects before it"
	case from.URL.Scheme == "https" && req.URL.Scheme != "https":
		return "a redirect must not leave https"
	case IsLoopback(req.URL.Hostname()) && !IsLoopback(from.URL.Hostname()):
		return "a redirect must not lead to this machine"
	case first.Method != http.MethodGet && first.Method != http.MethodHead:
		return "a redirect is followed with GET and HEAD only" // the body may hold a secret
	}
	return ""
}

// leavesOrigin reports whether any of the requests is to another origin than the first. A
// redirect back to the first origin counts too, because another origin chose it.
func leavesOrigin(req *http.Request, via []*http.Request) bool {
	first := origin(via[0].URL)
	for _, earlier := range via[1:] {
		if origin(earlier.URL) != first {
			return true
		}
	}
	return origin(req.URL) != first
}

// origin returns scheme, host and port in a canonical form. RFC 6454, section 4.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Scheme + "|" + strings.ToLower(u.Hostname()) + "|" + port
}

// harmless returns the headers that may be sent to any origin. It is a list of allowed
// names, because credentials can be in headers of any name.
func harmless(header http.Header) http.Header {
	kept := make(http.Header)
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"} {
		if lines := header[name]; lines != nil {
			kept[name] = lines
		}
	}
	return kept
}

// bound limits the body of a response. It returns a [*SizeError] if the Content-Length is
// too long; otherwise reading too much does.
func bound(res *http.Response, limit int64) error {
	if res.Request.Method != http.MethodHead && res.ContentLength > limit {
		res.Body.Close()
		return &SizeError{Max: limit}
	}
	res.Body = &boundedBody{ReadCloser: res.Body, limit: limit, left: limit}
	return nil
}

type boundedBody struct {
	io.ReadCloser
	limit, left int64
}

// Read reads up to one byte beyond the limit, to detect a body that is too long.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &SizeError{Max: b.limit}
	}
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &SizeError{Max: b.limit}
	}
	return n, err
}

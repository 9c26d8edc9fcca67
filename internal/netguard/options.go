package netguard

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options configure a [Guard]. The zero value allows public addresses only.
type Options struct {
	// AllowLoopback allows this machine, also over http: localhost and its subdomains,
	// 127.0.0.0/8 and ::1. Other names and redirects of other hosts still must not lead to
	// this machine.
	AllowLoopback bool
	// AllowHTTP lists hosts, as in URLs without a port, that are also allowed over http. The
	// rules for their addresses are the same. The comparison ignores case.
	AllowHTTP []string
	// Allow lists networks that are allowed although they are not public.
	Allow []netip.Prefix
	// Timeout bounds a fetch, from looking up the name to the last byte of the body,
	// including redirects. Default [DefaultTimeout].
	Timeout time.Duration
	// MaxBody is the maximum length of a body, in bytes. Default [DefaultMaxBody].
	MaxBody int64
	// Proxy returns the proxy for a request, nil for none. The proxy may be at any
	// address and is trusted: it looks up the names, so that only URLs are checked here.
	// Default no proxy; http.ProxyFromEnvironment uses the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
	// KeepAlive is how long an idle connection is kept for the next request to the same host,
	// whose name is not looked up again. Default 0: each request has a connection of its own.
	KeepAlive time.Duration
	// TLS configures TLS. Default the system's root certificates, TLS 1.2 and later.
	TLS *tls.Config
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = DefaultMaxBody
	}
	opts.Allow = slices.Clone(opts.Allow)
	opts.AllowHTTP = slices.Clone(opts.AllowHTTP)
	return opts
}

// Defaults of [Options].
const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 10 * time.Second
	// DefaultMaxBody is the default of [Options].MaxBody, in bytes.
	DefaultMaxBody = 1 << 20
)

const (
	// maxRedirects is the maximum number of redirects of one request.
	maxRedirects = 3
	// maxIdle and maxIdlePerHost bound the idle connections, with [Options].KeepAlive.
	maxIdle        = 256
	maxIdlePerHost = 64
	// maxHeader is the maximum length of the header of a response, in bytes.
	maxHeader = 256 << 10
	// maxName is the maximum length of a name, in bytes. RFC 1035, section 2.3.4.
	maxName = 253
	// maxShown is how much of a URL an error shows, in bytes.
	maxShown = 256
)

// A RefusedError says that a URL, or the address of its host, is not allowed. Nothing was
// sent there.
type RefusedError struct {
	// URL is the refused URL, without user information, query and fragment.
	URL string
	// Reason says why. It names the address if the address is the reason.
	Reason string
}

// Error names the URL and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%.*q is not fetched: %s", maxShown, e.URL, e.Reason)
}

// A SizeError says that the body of a response is too long.
type SizeError struct {
	// Max is the maximum length, in bytes.
	Max int64
}

// Error names the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the response is longer than %d bytes", e.Max)
}

// A StatusError says that the status of a response is not 2xx.
type StatusError struct {
	// Status is the status code.
	Status int
}

// Error names the status.
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the response has status %d %s", e.Status, http.StatusText(e.Status)))
}

// withoutSecrets returns a URL without user information, query and fragment.
func withoutSecrets(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

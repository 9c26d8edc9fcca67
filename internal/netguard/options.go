package netguard

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// Options configure a [Guard]. The zero value is good.
type Options struct {
	// AllowLoopback also admits this machine, and http there: localhost, names below
	// it, 127.0.0.0/8 and ::1. Another name must not lead to this machine still, nor
	// a redirect from elsewhere.
	AllowLoopback bool
	// Allow lists networks that may be reached although they are not public.
	Allow []netip.Prefix
	// Timeout bounds a fetch from looking up the name to the last byte of the body,
	// redirects included. Default [DefaultTimeout].
	Timeout time.Duration
	// MaxBody is how long a body may be, in bytes. Default [DefaultMaxBody].
	MaxBody int64
	// Proxy says which proxy a request goes through, nil for none. The proxy is
	// trusted, wherever it stands: it looks up the names, so that only URLs are
	// checked here. Default none, whatever the environment says;
	// http.ProxyFromEnvironment asks it.
	Proxy func(*http.Request) (*url.URL, error)
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
	// TLS configures TLS. Default the roots of the system, TLS 1.2 and later.
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
	return opts
}

package oauth

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

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
	// DPoP binds tokens to a key of this client (RFC 9449) and refuses tokens that are not
	// bound. If a server demands bound tokens, the client binds them without this option.
	DPoP bool
	// Store keeps tokens and registrations. Default a new [MemoryStore].
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
	var opts ClientOptions
	if o != nil {
		opts = *o
	}
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
	if err := checkScopes(o.Scopes); err != nil {
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

package oauth

import (
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

// ClientOptions configure a [Client]. The zero value is good: a person logs in with
// the system's browser, and what is learned is forgotten with the process.
type ClientOptions struct {
	// Flow is how tokens are got. Default a [*CodeFlow].
	Flow Flow
	// Name is what this client calls itself where it registers, for a person to read.
	// Default "Dovetail".
	Name string
	// Registrations are what authorization servers know this client by already. They
	// are preferred to other ways of registering.
	Registrations []Registration
	// MetadataURL is where this client's own metadata document lies (Client ID Metadata
	// Documents): an https URL with a path, which serves as the client's ID where the
	// server supports that. There should be a [CodeFlow].RedirectURI in it.
	MetadataURL string
	// Scopes are asked for in addition to those that a server demands.
	Scopes []string
	// NoRefresh has no refresh tokens asked for: neither with the scope offline_access,
	// where a server knows that, nor in a registration.
	NoRefresh bool
	// DPoP binds tokens to a key of this client (RFC 9449), and refuses to use ones that
	// are not bound. Where a resource demands it that is done in any case.
	DPoP bool
	// Store keeps tokens and registrations. Default a new [MemoryStore].
	Store TokenStore
	// AllowLoopback admits servers on this machine, also by http. It is for development.
	AllowLoopback bool
	// AllowNetworks lists networks that may be reached although they are not public,
	// such as a company's own. By https, still.
	AllowNetworks []netip.Prefix
	// Proxy says which proxy a request goes through, nil for none. It is trusted to reach
	// no private network at a stranger's word. Default none, whatever the environment says;
	// http.ProxyFromEnvironment asks it.
	Proxy func(*http.Request) (*url.URL, error)
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
	// Logger is told of what goes on, without secrets. Default slog.Default().
	Logger *slog.Logger
	// Clock tells the time. Default time.Now.
	Clock func() time.Time
}

func (o *ClientOptions) withDefaults() (ClientOptions, error) {
	var opts ClientOptions
	if o != nil {
		opts = *o
	}
	if opts.Flow == nil {
		opts.Flow = &CodeFlow{}
	}
	if opts.Name == "" {
		opts.Name = "Dovetail"
	}
	if opts.Store == nil {
		opts.Store = NewMemoryStore()
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	opts.Registrations = slices.Clone(opts.Registrations)
	opts.Scopes = slices.Clone(opts.Scopes)
	return opts, opts.check()
}

func (o *ClientOptions) check() error {
	if o.MetadataURL != "" {
		u, err := url.Parse(o.MetadataURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.Path == "/" || u.User != nil || u.Fragment != "" {
			return errors.New("oauth: expected a MetadataURL that is https, with a path, without user and fragment")
		}
	}
	for i := range o.Registrations {
		if err := o.Registrations[i].check(); err != nil {
			return fmt.Errorf("oauth: Registrations[%d]: %w", i, err)
		}
	}
	for _, scope := range o.Scopes {
		if !isScope(scope) {
			return fmt.Errorf("oauth: Scopes: %s is none; expected printable characters without space, quote and backslash (RFC 6749, section 3.3)", quote(scope))
		}
	}
	return o.Flow.check(o)
}

// guard is what fetches for the client.
func (o *ClientOptions) guard() *netguard.Guard {
	return netguard.New(&netguard.Options{
		AllowLoopback: o.AllowLoopback, Allow: o.AllowNetworks, Resolver: o.Resolver, Proxy: o.Proxy,
		Timeout: fetchTimeout, MaxBody: maxDocument,
	})
}

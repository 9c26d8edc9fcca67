package httpguard

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"

	"github.com/dovetail-go/dovetail/transport"
)

// Warnings logs once each that requests have credentials but no principal, and that clients behind a proxy cannot be
// told apart. It may be used concurrently.
type Warnings struct {
	logger  *slog.Logger
	trusted []netip.Prefix // proxies

	principal, network sync.Once
}

// NewWarnings returns warnings that are not logged yet.
func NewWarnings(logger *slog.Logger, trustedProxies []netip.Prefix) *Warnings {
	return &Warnings{logger: logger, trusted: trustedProxies}
}

// Check logs what is wrong with a request without a principal.
func (w *Warnings) Check(r *http.Request) {
	if transport.Principal(r.Context()) != "" {
		return
	}
	if r.Header["Authorization"] != nil {
		w.principal.Do(func() {
			w.logger.Warn("requests have an Authorization header, but no principal is set: the middleware that authenticates requests must call transport.WithPrincipal, or oauth.Protect must wrap the endpoint; until then, sessions are not bound to their clients",
				"path", r.URL.Path)
		})
	}
	if proxy, ok := parseAddress(r.RemoteAddr); ok && r.Header["X-Forwarded-For"] != nil && !isTrusted(proxy, w.trusted) {
		w.network.Do(func() {
			w.logger.Warn("requests have the header X-Forwarded-For, but not from one of TrustedProxies: all clients behind that address have one share of the limits",
				"address", proxy.String(), "path", r.URL.Path)
		})
	}
}

package httpguard

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/transport"
)

// A PrincipalWarning logs once that requests have credentials but no principal. Without a principal,
// sessions are not bound to their clients, and guards do not see who calls. It may be used
// concurrently.
type PrincipalWarning struct {
	logger *slog.Logger
	once   sync.Once
}

// NewPrincipalWarning returns a warning that is not logged yet.
func NewPrincipalWarning(logger *slog.Logger) *PrincipalWarning {
	return &PrincipalWarning{logger: logger}
}

// Warn logs the warning if r has an Authorization header and its context has no principal.
func (c *PrincipalWarning) Warn(r *http.Request) {
	if r.Header["Authorization"] == nil || transport.Principal(r.Context()) != "" {
		return
	}
	c.once.Do(func() {
		c.logger.Warn("requests have an Authorization header, but no principal is set: the middleware that authenticates requests must call transport.WithPrincipal, or oauth.Protect must wrap the endpoint; until then, sessions are not bound to their clients",
			"path", r.URL.Path)
	})
}

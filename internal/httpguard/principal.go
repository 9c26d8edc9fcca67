package httpguard

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/transport"
)

// A PrincipalCheck logs once that requests have credentials but no principal. Without a principal,
// sessions are not bound to their clients, and guards do not see who calls. It may be used
// concurrently.
type PrincipalCheck struct {
	logger *slog.Logger
	once   sync.Once
}

// NewPrincipalCheck returns a check that logs a warning.
func NewPrincipalCheck(logger *slog.Logger) *PrincipalCheck { return &PrincipalCheck{logger: logger} }

// Check logs the warning if r has an Authorization header and its context has no principal.
func (c *PrincipalCheck) Check(r *http.Request) {
	if r.Header["Authorization"] == nil || transport.Principal(r.Context()) != "" {
		return
	}
	c.once.Do(func() {
		c.logger.Warn("requests have an Authorization header, but no principal is set: the middleware that authenticates requests must call transport.WithPrincipal, or oauth.Protect must wrap the endpoint; until then, sessions are not bound to their clients",
			"path", r.URL.Path)
	})
}

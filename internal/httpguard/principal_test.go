package httpguard_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/transport"
)

// The warning is logged once, and only for requests with credentials and without a principal.
func TestPrincipalWarning(t *testing.T) {
	for _, test := range []struct {
		authorization, principal string
		warnings                 int
	}{
		{"Bearer key", "", 1}, {"Bearer key", "ada", 0}, {"", "", 0}, {"", "ada", 0},
	} {
		var log strings.Builder
		warning := httpguard.NewPrincipalWarning(slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			if test.authorization != "" {
				r.Header.Set("Authorization", test.authorization)
			}
			if test.principal != "" {
				r = r.WithContext(transport.WithPrincipal(r.Context(), test.principal))
			}
			warning.Warn(r)
		}
		if got := strings.Count(log.String(), "transport.WithPrincipal"); got != test.warnings || strings.Contains(log.String(), "key") {
			t.Errorf("%+v: logged %q", test, log.String())
		}
	}
}

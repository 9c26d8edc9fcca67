package httpguard_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/transport"
)

// Each warning is logged once, and only for requests without a principal.
func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		header, principal, remote string
		want                      string
	}{
		{"Authorization", "", "192.0.2.1:1", "transport.WithPrincipal"},
		{"Authorization", "ada", "192.0.2.1:1", ""},
		{"X-Forwarded-For", "", "192.0.2.1:1", "TrustedProxies"},
		{"X-Forwarded-For", "ada", "192.0.2.1:1", ""},
		{"X-Forwarded-For", "", "10.0.0.1:1", ""},
		{"X-Forwarded-For", "", "@", ""},
		{"Accept", "", "192.0.2.1:1", ""},
	} {
		var log strings.Builder
		warnings := httpguard.NewWarnings(slog.New(slog.NewTextHandler(&log, nil)), []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
		for range 3 {
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.RemoteAddr = test.remote
			r.Header.Set(test.header, "Bearer secret")
			if test.principal != "" {
				r = r.WithContext(transport.WithPrincipal(r.Context(), test.principal))
			}
			warnings.Check(r)
		}
		lines := strings.Count(log.String(), "level=WARN")
		if test.want == "" && lines != 0 || test.want != "" && (lines != 1 || !strings.Contains(log.String(), test.want)) || strings.Contains(log.String(), "secret") {
			t.Errorf("%+v: logged %q", test, log.String())
		}
	}
}

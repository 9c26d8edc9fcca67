package edge_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/internal/edge"
)

// Share answers preflights of listed pages, lets those pages read, and touches nothing
// else.
func TestShare(t *testing.T) {
	guard, err := edge.NewGuard(nil, []string{page})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		method  string
		origins []string
		request string // Access-Control-Request-Method
		allowed string
		status  int // 0: not answered
	}{
		"no page":              {"POST", nil, "", "", 0},
		"a page":               {"POST", []string{page}, "", page, 0},
		"a stranger":           {"POST", []string{"https://evil.example"}, "", "", 0},
		"several":              {"POST", []string{page, page}, "", "", 0},
		"a local page":         {"POST", []string{"http://localhost:1"}, "", "", 0},
		"preflight":            {"OPTIONS", []string{page}, "POST", page, 204},
		"stranger's preflight": {"OPTIONS", []string{"https://evil.example"}, "POST", "", 0},
		"no preflight":         {"OPTIONS", []string{page}, "", page, 0},
	} {
		r := httptest.NewRequest(test.method, "http://mcp.example.com/", nil)
		r.Header["Origin"] = test.origins
		if test.request != "" {
			r.Header.Set("Access-Control-Request-Method", test.request)
		}
		w := httptest.NewRecorder()
		w.Code = 0
		if answered := guard.Share(w, r, http.MethodPost); answered != (test.status != 0) || w.Code != test.status {
			t.Errorf("%s: answered %t, status %d", name, answered, w.Code)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != test.allowed {
			t.Errorf("%s: allowed is %q", name, got)
		}
	}
}

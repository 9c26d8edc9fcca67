package edge_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "https://app.example.com"

// corsHeaders are those of the answer that a browser looks at.
func corsHeaders(h http.Header) map[string]string {
	found := map[string]string{}
	for name, values := range h {
		if name == "Vary" || strings.HasPrefix(name, "Access-Control-") {
			found[name] = strings.Join(values, "|")
		}
	}
	return found
}

func TestCORS(t *testing.T) {
	const methods = "GET, POST, DELETE"
	readable := map[string]string{
		"Access-Control-Allow-Origin":   page,
		"Access-Control-Expose-Headers": "Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce",
		"Vary":                          "Origin",
	}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range []map[string]string{readable, more} {
			maps.Copy(all, m)
		}
		return all
	}
	preflight := map[string]string{"Access-Control-Allow-Methods": methods, "Access-Control-Max-Age": "7200"}
	allowing := func(names string) map[string]string {
		return with(map[string]string{
			"Access-Control-Allow-Methods": methods, "Access-Control-Max-Age": "7200", "Access-Control-Allow-Headers": names,
		})
	}
	for name, c := range map[string]struct {
		method, origin string
		requestMethod  string
		requestHeaders []string
		admitted       bool
		status         int
		headers        map[string]string
	}{
		"no origin":                      {method: "POST", admitted: true},
		"listed":                         {method: "POST", origin: page, admitted: true, headers: readable},
		"local page":                     {method: "POST", origin: "http://localhost:5173", admitted: true},
		"stranger":                       {method: "POST", origin: "https://evil.example", status: 403},
		"wrong method of a listed one":   {method: "PUT", origin: page, status: 405, headers: readable},
		"preflight":                      {method: "OPTIONS", origin: page, requestMethod: "POST", status: 204, headers: with(preflight)},
		"preflight of a local page":      {method: "OPTIONS", origin: "http://localhost:5173", requestMethod: "POST", status: 405},
		"preflight of a stranger":        {method: "OPTIONS", origin: "https://evil.example", requestMethod: "POST", status: 403},
		"preflight without origin":       {method: "OPTIONS", requestMethod: "POST", status: 405},
		"OPTIONS that is no preflight":   {method: "OPTIONS", origin: page, status: 405, headers: readable},
		"OPTIONS without anything":       {method: "OPTIONS", status: 405},
		"preflight for a strange method": {method: "OPTIONS", origin: page, requestMethod: "PATCH", status: 204, headers: with(preflight)},
		"all the headers there are": {
			method: "OPTIONS", origin: page, requestMethod: "POST", status: 204,
			requestHeaders: []string{"accept,authorization,content-type,dpop,last-event-id,mcp-method,mcp-name,mcp-param-region,mcp-protocol-version,mcp-session-id"},
			headers:        allowing("accept, authorization, content-type, dpop, last-event-id, mcp-method, mcp-name, mcp-param-region, mcp-protocol-version, mcp-session-id"),
		},
		"some headers, oddly written": {
			method: "OPTIONS", origin: page, requestMethod: "POST", status: 204,
			requestHeaders: []string{" Content-Type ,X-Other,,cookie", "MCP-Param-A!b\t,host"},
			headers:        allowing("content-type, mcp-param-a!b"),
		},
		"hostile headers": {
			method: "OPTIONS", origin: page, requestMethod: "POST", status: 204,
			requestHeaders: []string{"mcp-param-, mcp-param-a b, mcp-param-\u00e9, mcp-param-\"x\", *, x\r\ny, " + strings.Repeat(",", 10_000)},
			headers:        with(preflight),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(c.method, "localhost", locals["loopback"])
			for header, value := range map[string]string{"Origin": c.origin, "Access-Control-Request-Method": c.requestMethod} {
				if value != "" {
					r.Header.Set(header, value)
				}
			}
			r.Header["Access-Control-Request-Headers"] = c.requestHeaders
			w := httptest.NewRecorder()
			if got := guard(t, nil, []string{page}).Admit(w, r, "GET", "POST", "DELETE"); got != c.admitted {
				t.Errorf("admitted: %t, want %t", got, c.admitted)
			}
			want := c.headers
			if want == nil {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, corsHeaders(w.Header())); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			switch {
			case c.admitted:
				if w.Body.Len() > 0 {
					t.Errorf("admitted, and answered with %s", w.Body)
				}
			case c.status == http.StatusNoContent:
				if w.Code != c.status || w.Body.Len() > 0 {
					t.Errorf("status %d with body %q", w.Code, w.Body)
				}
			default:
				checkRefusal(t, w, c.status)
			}
			if allow := w.Header().Get("Allow"); (c.status == http.StatusMethodNotAllowed) != (allow == methods) {
				t.Errorf("Allow is %q with status %d", allow, c.status)
			}
		})
	}
}

func TestMethods(t *testing.T) {
	g := guard(t, nil, nil)
	served := []string{"GET", "POST"}
	for _, method := range []string{"GET", "POST", "get", "Get", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "X", "", strings.Repeat("A", 10_000)} {
		r := request("GET", "localhost", locals["loopback"])
		r.Method = method
		w := httptest.NewRecorder()
		want := slices.Contains(served, method)
		if got := g.Admit(w, r, served...); got != want {
			t.Errorf("the method %.20q is admitted: %t, want %t", method, got, want)
		}
		if !want {
			checkRefusal(t, w, http.StatusMethodNotAllowed)
		}
	}
}

package httpguard_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/httpguard"
)

// spellings lists Host headers and whether they name this machine.
var spellings = map[string]bool{
	"localhost":                            true,
	"LocalHost":                            true,
	"localhost.":                           true,
	"localhost:8080":                       true,
	"localhost.:8080":                      true,
	"localhost:":                           true,
	"app.localhost":                        true,
	"a-1.b_2.LOCALHOST:3000":               true,
	"127.0.0.1":                            true,
	"127.0.0.1:65535":                      true,
	"127.0.0.1.":                           true,
	"127.255.255.254":                      true,
	"[::1]":                                true,
	"[::1]:80":                             true,
	"[0:0:0:0:0:0:0:1]":                    true,
	"[::ffff:127.0.0.1]":                   true,
	"[::FFFF:7f00:1]:80":                   true,
	"":                                     false,
	".":                                    false,
	":80":                                  false,
	"evil.example":                         false,
	"evil.example:80":                      false,
	"localhost.evil.example":               false,
	"127.0.0.1.evil.example":               false,
	"localhost.evil.example.":              false,
	"evillocalhost":                        false,
	".localhost":                           false,
	"a..localhost":                         false,
	"localhost..":                          false,
	"localho\u017ft":                       false, // long s, which folds to s
	"loc\u0430lhost":                       false, // a Cyrillic a
	"localhost\x00":                        false,
	"localhost ":                           false,
	" localhost":                           false,
	"localhost\t":                          false,
	"localhost,evil.example":               false,
	"localhost/":                           false,
	"localhost#":                           false,
	"http://localhost":                     false,
	"user@localhost":                       false,
	"evil.example@localhost":               false,
	"localhost:80:80":                      false,
	"localhost:65536":                      false,
	"localhost:+80":                        false,
	"localhost:-1":                         false,
	"localhost:8o":                         false,
	"localhost:80\n":                       false,
	"localhost%00":                         false,
	"%6cocalhost":                          false,
	"127.1":                                false,
	"127.0.0.01":                           false,
	"0177.0.0.1":                           false,
	"0x7f.0.0.1":                           false,
	"0x7f000001":                           false,
	"2130706433":                           false,
	"127.0.0.1.1":                          false,
	"127.0.0.256":                          false,
	"128.0.0.1":                            false,
	"0.0.0.0":                              false,
	"[::]":                                 false,
	"::1":                                  false,
	"[::1":                                 false,
	"::1]":                                 false,
	"[[::1]]":                              false,
	"[::1]80":                              false,
	"[::1]:":                               true,
	"[::1]:x":                              false,
	"[::1%lo]":                             false,
	"[::1%25lo]":                           false,
	"[127.0.0.1]":                          false,
	"[localhost]":                          false,
	"[]":                                   false,
	"[2001:db8::1]":                        false,
	"192.168.0.1":                          false,
	"169.254.169.254":                      false,
	"\u2488\u2488\u2488":                   false,
	"127\u30020\u30020\u30021":             false, // ideographic full stops
	strings.Repeat("a.", 100_000) + "b":    false,
	strings.Repeat("localhost:", 10_000):   false,
	strings.Repeat("a.", 5) + "localhost":  true,
	"localhost:0":                          true,
	"localhost:" + strings.Repeat("0", 99): true,
}

// On loopback and unknown addresses, only loopback names are allowed. On others, every
// name is.
func TestHostWithoutList(t *testing.T) {
	g := guard(t, nil, nil)
	for name, local := range locals {
		for host, isLoopback := range spellings {
			w := httptest.NewRecorder()
			got := g.Admit(w, request("GET", host, local), "GET")
			if want := isLoopback || !strict[name]; got != want {
				t.Errorf("%s: the host %.50q is admitted: %t, want %t", name, host, got, want)
			}
			if got {
				continue
			}
			checkRefusal(t, w, http.StatusForbidden)
			if !strings.Contains(w.Body.String(), "option Hosts") {
				t.Errorf("the refusal does not say which option would help: %s", w.Body)
			}
			if w.Body.Len() > 2000 {
				t.Errorf("the refusal of %.50q has %d bytes", host, w.Body.Len())
			}
		}
	}
}

// Listed hosts are allowed in addition to loopback names and the local address of the connection.
func TestHostWithList(t *testing.T) {
	g := guard(t, []string{"Example.com.", "other.example:8443", "192.0.2.7", "[2001:db8::0:1]:81", "xn--bcher-kva.example"}, nil)
	for host, want := range map[string]bool{
		"example.com":                  true,
		"EXAMPLE.com":                  true,
		"example.com.":                 true,
		"example.com:1234":             true,
		"other.example:8443":           true,
		"other.example.:8443":          true,
		"192.0.2.7:80":                 true,
		"[::ffff:192.0.2.7]":           true,
		"[2001:db8::1]:81":             true,
		"xn--bcher-kva.example":        true,
		"b\u00fccher.example":          false,
		"other.example":                false,
		"other.example:844":            false,
		"other.example:08443":          false,
		"[2001:db8::1]":                false,
		"[2001:db8::1]:82":             false,
		"www.example.com":              false,
		"example.com.evil.example":     false,
		"example.com@evil.example":     false,
		"evil.example":                 false,
		"":                             false,
		"example.com, other.example":   false,
		"192.0.2.8":                    false,
		"example.com:80\r\nX-Other: y": false,
	} {
		for name, local := range locals {
			if got := g.Admit(httptest.NewRecorder(), request("GET", host, local), "GET"); got != want {
				t.Errorf("%s: the host %q is admitted: %t, want %t", name, host, got, want)
			}
		}
	}
	for name, local := range locals {
		for host, want := range map[string]bool{
			"localhost:80": true, "127.0.0.1:9000": true, "[::1]": true,
			"192.0.2.1:8900": name == "public", "[2001:db8::2]:8900": name == "public v6", "[::ffff:192.0.2.1]": name == "public", "192.0.2.1.example": false,
		} {
			if got := g.Admit(httptest.NewRecorder(), request("GET", host, local), "GET"); got != want {
				t.Errorf("%s: the host %q is admitted: %t, want %t", name, host, got, want)
			}
		}
	}
}

func TestNewGuardRefusesWhatIsNoHost(t *testing.T) {
	for _, host := range []string{
		"", "*", "*.example.com", "https://example.com", "example.com/", "example.com:https", "example.com:65536",
		"a b", "b\u00fccher.example", "::1", "10.0.0", "user@example.com", "example..com", "example.com,other.example",
	} {
		_, err := httpguard.NewGuard([]string{"ok.example", host}, nil)
		if err == nil {
			t.Errorf("the host %q was taken", host)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, "Hosts: ") || !strings.Contains(text, "expected") {
			t.Errorf("the error %q does not say what was expected where", text)
		}
	}
}

// The guard reads the local address of a real connection.
func TestHostOnARealConnection(t *testing.T) {
	g := guard(t, nil, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Admit(w, r, "GET") {
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer srv.Close()
	for host, want := range map[string]int{"": http.StatusNoContent, "localhost": http.StatusNoContent, "evil.example": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("the host %q got %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// namesLoopback is an independent implementation.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

func FuzzHost(f *testing.F) {
	for host := range spellings {
		if len(host) < 100 {
			f.Add(host)
		}
	}
	g := guard(f, nil, nil)
	listed := guard(f, []string{"example.com"}, nil)
	f.Fuzz(func(t *testing.T, host string) {
		for _, name := range []string{"loopback", "unknown"} {
			if g.Admit(httptest.NewRecorder(), request("GET", host, locals[name]), "GET") && !namesLoopback(host) {
				t.Errorf("%s: the host %q is admitted", name, host)
			}
		}
		if listed.Admit(httptest.NewRecorder(), request("GET", host, locals["public"]), "GET") && !namesLoopback(host) &&
			!strings.HasPrefix(strings.ToLower(host), "example.com") && !strings.HasPrefix(host, "192.0.2.1") && !strings.HasPrefix(host, "[") {
			t.Errorf("the host %q is admitted, which is not listed", host)
		}
	})
}

var appOrigins = []string{"https://app.example.com", "https://other.example:8443", "http://[2001:db8::1]", "vscode-webview://1a2b", "HTTPS://Upper.example:443"}

// originCases lists Origin headers, and whether they are allowed because they are listed
// or because both ends are loopback.
var originCases = []struct {
	lines  []string
	listed bool
	local  bool
}{
	{nil, true, true},
	{[]string{"https://app.example.com"}, true, true},
	{[]string{"HTTPS://APP.example.com"}, true, true},
	{[]string{"https://app.example.com:443"}, true, true},
	{[]string{"https://other.example:8443"}, true, true},
	{[]string{"http://[2001:db8:0::1]:80"}, true, true},
	{[]string{"vscode-webview://1a2b"}, true, true},
	{[]string{"https://upper.example"}, true, true},
	{[]string{"http://localhost"}, false, true},
	{[]string{"http://localhost:5173"}, false, true},
	{[]string{"https://LOCALHOST:5173"}, false, true},
	{[]string{"http://app.localhost"}, false, true},
	{[]string{"http://127.0.0.1:6274"}, false, true},
	{[]string{"http://[::1]:6274"}, false, true},
	{[]string{"null"}, false, false},
	{[]string{"NULL"}, false, false},
	{[]string{""}, false, false},
	{[]string{"*"}, false, false},
	{[]string{"localhost"}, false, false},
	{[]string{"//localhost"}, false, false},
	{[]string{"://localhost"}, false, false},
	{[]string{"file://"}, false, false},
	{[]string{"file:///"}, false, false},
	{[]string{"file://localhost"}, false, false},
	{[]string{"chrome-extension://localhost"}, false, false},
	{[]string{"http://localhost/"}, false, false},
	{[]string{"http://localhost:80:80"}, false, false},
	{[]string{"http://localhost "}, false, false},
	{[]string{"http://localhost#"}, false, false},
	{[]string{"http://localhost?"}, false, false},
	{[]string{"http://user@localhost"}, false, false},
	{[]string{"http://localhost.evil.example"}, false, false},
	{[]string{"http://evil.example"}, false, false},
	{[]string{"http://app.example.com"}, false, false},
	{[]string{"https://app.example.com:444"}, false, false},
	{[]string{"https://app.example.com/"}, false, false},
	{[]string{"https://app.example.com.evil.example"}, false, false},
	{[]string{"https://app.example.com, http://evil.example"}, false, false},
	{[]string{"https://app.example.com http://evil.example"}, false, false},
	{[]string{"https://sub.app.example.com"}, false, false},
	{[]string{"https://other.example"}, false, false},
	{[]string{"https://app.example.com", "https://app.example.com"}, false, false},
	{[]string{"http://localhost", "https://evil.example"}, false, false},
	{[]string{"", ""}, false, false},
	{[]string{"1http://localhost"}, false, false},
	{[]string{"ht tp://localhost"}, false, false},
	{[]string{"http://localho\u017ft"}, false, false},
	{[]string{strings.Repeat("http://", 10_000)}, false, false},
}

func TestOrigin(t *testing.T) {
	g := guard(t, []string{"server.example"}, appOrigins)
	for _, c := range originCases {
		for name, local := range locals {
			r := request("POST", "server.example", local)
			if c.lines != nil {
				r.Header["Origin"] = c.lines
			}
			w := httptest.NewRecorder()
			onLoopback := name == "loopback" || name == "loopback v6" || name == "mapped"
			want := c.listed || c.local && onLoopback
			if got := g.Admit(w, r, "POST"); got != want {
				t.Errorf("%s: the origin %.100q is admitted: %t, want %t", name, c.lines, got, want)
			}
			readable := c.listed && c.lines != nil
			if got := w.Header().Get("Access-Control-Allow-Origin"); readable && got != c.lines[0] || !readable && got != "" {
				t.Errorf("%s: Access-Control-Allow-Origin is %q for the origin %.100q", name, got, c.lines)
			}
			if want {
				continue
			}
			checkRefusal(t, w, http.StatusForbidden)
			if !strings.Contains(w.Body.String(), "option Origins") {
				t.Errorf("the refusal does not say which option would help: %s", w.Body)
			}
		}
	}
}

// A page may call the host and port that it came from, if they are a loopback name or the address of the connection.
// Origins of listed hosts are listed.
func TestOwnOrigin(t *testing.T) {
	g := guard(t, []string{"server.example"}, nil)
	for _, c := range []struct {
		host, origin string
		want         bool
	}{
		{"server.example:8900", "http://server.example:8900", false},
		{"localhost:443", "https://localhost", true},
		{"localhost", "http://localhost:80", true},
		{"localhost:9000", "http://localhost:9000", true},
		{"192.0.2.1:8900", "http://192.0.2.1:8900", true},
		{"192.0.2.1:8900", "http://192.0.2.1:8901", false},
		{"localhost:9000", "http://localhost:3000", false},
		{"localhost:9000", "http://server.example:9000", false},
		{"localhost:443", "http://localhost", false},
		{"localhost", "ftp://localhost", false},
		{"evil.example:8900", "http://evil.example:8900", false},
		{"192.0.2.2:8900", "http://192.0.2.2:8900", false},
	} {
		r := request("POST", c.host, locals["public"])
		r.Header.Set("Origin", c.origin)
		w := httptest.NewRecorder()
		if got := g.Admit(w, r, "POST"); got != c.want {
			t.Errorf("the origin %s at the host %s is admitted: %t, want %t", c.origin, c.host, got, c.want)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("the origin %s gets the CORS header %q", c.origin, got)
		}
	}
}

// DNS rebinding does not make the origin of a page trusted.
func TestOriginIsNotComparedWithHost(t *testing.T) {
	g := guard(t, nil, nil)
	for _, name := range []string{"public", "unix"} {
		r := request("POST", "evil.example:80", locals[name])
		r.Header.Set("Origin", "http://evil.example:80")
		w := httptest.NewRecorder()
		if g.Admit(w, r, "POST") {
			t.Errorf("%s: an origin that equals Host is admitted", name)
		}
	}
}

func TestNewGuardRefusesWhatIsNoOrigin(t *testing.T) {
	for _, origin := range []string{
		"", "*", "null", "https://*", "https://*.example.com", "app.example.com", "https://", "https:///", "https://app.example.com/",
		"https://app.example.com/path", "https://app.example.com?", "https://user@app.example.com", "https://a b", "://a", "https:app.example.com",
	} {
		_, err := httpguard.NewGuard(nil, []string{"https://ok.example", origin})
		if err == nil {
			t.Errorf("the origin %q was taken", origin)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, "Origins: ") || !strings.Contains(text, "expected") {
			t.Errorf("the error %q does not say what was expected where", text)
		}
	}
}

func FuzzOrigin(f *testing.F) {
	for _, c := range originCases {
		for _, line := range c.lines {
			if len(line) < 100 {
				f.Add(line)
			}
		}
	}
	g := guard(f, nil, []string{"https://app.example.com"})
	f.Fuzz(func(t *testing.T, origin string) {
		r := request("POST", "localhost", locals["loopback"])
		r.Header["Origin"] = []string{origin}
		w := httptest.NewRecorder()
		if !g.Admit(w, r, "POST") {
			return
		}
		scheme, host, _ := strings.Cut(strings.ToLower(origin), "://")
		isListed := scheme == "https" && (host == "app.example.com" || host == "app.example.com." ||
			strings.TrimSuffix(host, ":") == "app.example.com" || strings.TrimSuffix(host, ":443") == "app.example.com" || strings.HasPrefix(host, "app.example.com.:"))
		if !isListed && (scheme != "http" && scheme != "https" || !namesLoopback(host)) {
			t.Errorf("the origin %q is admitted", origin)
		}
		if strings.ContainsAny(w.Header().Get("Access-Control-Allow-Origin"), "\r\n\x00 ,") {
			t.Errorf("the header of the answer repeats %q", origin)
		}
	})
}

const page = "https://app.example.com"

// corsHeaders returns the headers of the response that a browser reads.
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

// AllowOrigin answers preflights of listed pages, lets them read responses, and changes
// nothing else.
func TestAllowOrigin(t *testing.T) {
	guard, err := httpguard.NewGuard(nil, []string{page})
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
		if answered := guard.AllowOrigin(w, r, http.MethodPost); answered != (test.status != 0) || w.Code != test.status {
			t.Errorf("%s: answered %t, status %d", name, answered, w.Code)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != test.allowed {
			t.Errorf("%s: allowed is %q", name, got)
		}
	}
}

// A retainingWriter is a writer that retains its argument, as HTTP/2 may.
type retainingWriter struct {
	*httptest.ResponseRecorder
	kept []byte
}

func (h *retainingWriter) Write(p []byte) (int, error) {
	h.kept = p
	return 0, http.ErrHandlerTimeout
}

func TestWritersLetGo(t *testing.T) {
	for major, want := range map[int]string{1: "other", 2: "first"} {
		h := &retainingWriter{ResponseRecorder: httptest.NewRecorder()}
		w := httpguard.CopyWrites(h, &http.Request{ProtoMajor: major})
		memory := []byte("first")
		if n, err := w.Write(memory); n != 0 || err != http.ErrHandlerTimeout {
			t.Errorf("HTTP/%d: Write gives %d, %v", major, n, err)
		}
		copy(memory, "other")
		if string(h.kept) != want {
			t.Errorf("HTTP/%d: %q was kept, want %q", major, h.kept, want)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("HTTP/%d: flushing: %v", major, err)
		}
	}
}

func TestToken(t *testing.T) {
	const token = "abcdefghijklmnop"
	long := strings.Repeat("a", 4097)
	for name, test := range map[string]struct {
		header http.Header
		want   string
	}{
		"none":              {nil, ""},
		"bearer":            {http.Header{"Authorization": {"Bearer " + token}}, token},
		"any case":          {http.Header{"Authorization": {"bEARER  " + token + " "}}, token},
		"another scheme":    {http.Header{"Authorization": {"Basic " + token}}, ""},
		"two":               {http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, ""},
		"long":              {http.Header{"Authorization": {"Bearer " + long}}, ""},
		"subprotocol":       {http.Header{"Upgrade": {"WebSocket"}, "Sec-Websocket-Protocol": {"a, dovetail.token." + token}}, token},
		"second line":       {http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"a", "dovetail.token." + token}}, token},
		"no WebSocket":      {http.Header{"Sec-Websocket-Protocol": {"dovetail.token." + token}}, ""},
		"header before":     {http.Header{"Authorization": {"Basic x"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"dovetail.token." + token}}, ""},
		"long, subprotocol": {http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"dovetail.token." + long}}, ""},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://localhost/?token="+token+"&access_token="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = test.header
		if got := httpguard.Token(r); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestIsToken(t *testing.T) {
	for text, want := range map[string]bool{
		"0123456789abcdef": true, "ABCDEFGHIJ-._~xyz": true, "0123456789abcde": false,
		"0123456789abcde ": false, "0123456789abcde,": false, "0123456789abcdeé": false, "0123456789abcd\n\n": false, "": false,
		strings.Repeat("a", 4096): true, strings.Repeat("a", 4097): false,
	} {
		if httpguard.IsToken(text) != want {
			t.Errorf("%.40q: %t", text, !want)
		}
	}
}

// Requests as they come in on a connection, byte by byte, to a server on this machine.
func TestRawRequests(t *testing.T) {
	const (
		head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		body = "Content-Length: 2\r\n\r\n{}"
	)
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"plain":                       {head + body, 200},
		"names in any case":           {"POST / HTTP/1.1\r\nhOsT: localhost\r\ncONTENT-tYPE: application/json\r\n" + body, 200},
		"origin in any case":          {head + "oRIGIN: https://evil.example\r\n" + body, 403},
		"no host":                     {"POST / HTTP/1.0\r\nContent-Type: application/json\r\n" + body, 403},
		"two hosts":                   {"POST / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n" + body, 400},
		"target of another name":      {"POST http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + body, 403},
		"two origins":                 {head + "Origin: http://localhost\r\nOrigin: http://localhost\r\n" + body, 403},
		"a listed origin and another": {head + "Origin: " + page + "\r\nOrigin: https://evil.example\r\n" + body, 403},
		"origin of nothing":           {head + "Origin:\r\n" + body, 403},
		"origin of spaces":            {head + "Origin: \t \r\n" + body, 403},
		"origin with spaces around":   {head + "Origin: \t" + page + " \r\n" + body, 200},
		"origin folded":               {head + "Origin: " + page + "\r\n .evil.example\r\n" + body, 403}, // RFC 9112, section 5.2: a space
		"two types":                   {head + "Content-Type: text/plain\r\n" + body, 415},
		"a type behind a comma":       {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain, application/json\r\n" + body, 415},
		"a simple type with a hint":   {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain;application/json\r\n" + body, 415},
		"encoding in any case":        {head + "content-encoding: GZIP\r\n" + body, 415},
		"nothing":                     {head + "Content-Length: 0\r\n\r\n", 200},
		"lengths that differ":         {head + "Content-Length: 1\r\n" + body, 400},
		"negative length":             {head + "Content-Length: -1\r\n\r\n", 400},
		"length and chunks":           {head + "Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200},
		"chunks with a trailer":       {head + "Transfer-Encoding: chunked\r\n\r\n1;x=y\r\n{\r\n1\r\n}\r\n0\r\nOrigin: https://evil.example\r\n\r\n", 200},
		"a chunk that is none":        {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
		"an endless chunk":            {head + "Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n" + strings.Repeat("x", 3*limit), 413},
		"an impossible chunk":         {head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}", 400},
		"a length beyond all numbers": {head + "Content-Length: 9223372036854775807\r\n\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, nil, []string{page})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if g.Admit(w, r, "POST") {
					echoBody(w, r)
				}
			}))
			defer srv.Close()
			status, _ := exchange(t, srv, c.raw)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
		})
	}
}

// exchange sends bytes and reads one answer.
func exchange(t *testing.T, srv *httptest.Server, raw string) (status int, rest []byte) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, raw) // the server may have had enough of it
	}()
	defer func() { conn.Close(); <-written }()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	rest, _ = io.ReadAll(resp.Body)
	if !resp.Close {
		return resp.StatusCode, rest
	}
	more, _ := io.ReadAll(in)
	return resp.StatusCode, append(rest, more...)
}

// The body of a refused request is not parsed as a request.
func TestRefusedBodyIsNoRequest(t *testing.T) {
	const inner = "POST /secret HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	for name, head := range map[string]string{
		"host":           "POST / HTTP/1.1\r\nHost: evil.example\r\n",
		"origin":         "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n",
		"method":         "PUT / HTTP/1.1\r\nHost: localhost\r\n",
		"a body to GET":  "GET / HTTP/1.1\r\nHost: localhost\r\n",
		"type":           "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
		"encoding":       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n",
		"with a promise": "POST / HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\n",
	} {
		for way, framed := range map[string]string{
			"length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
			"chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				g := guard(t, nil, nil)
				var served atomic.Int32
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					served.Add(1)
					if r.URL.Path == "/secret" {
						t.Error("the body was taken for a request")
					}
					if g.Admit(w, r, "POST") {
						echoBody(w, r)
					}
				}))
				defer srv.Close()
				status, rest := exchange(t, srv, head+framed)
				if status < 400 || bytes.Contains(rest, []byte("HTTP/1.1")) || served.Load() != 1 {
					t.Errorf("status %d, then %q; %d requests were served", status, rest, served.Load())
				}
			})
		}
	}
}

// The same over HTTP/2, where there is no connection to close.
func TestReadJSONOverHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(echoBody))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for name, c := range map[string]struct {
		kind   string
		body   io.Reader
		length int64
		status int
	}{
		"known":         {"application/json", strings.NewReader("{}"), 2, 200},
		"unknown":       {"application/json", strings.NewReader("{}"), -1, 200},
		"as long as it": {"application/json", strings.NewReader(strings.Repeat("x", limit)), -1, 200},
		"too long":      {"application/json", strings.NewReader(strings.Repeat("x", limit+1)), -1, 413},
		"known too":     {"application/json", strings.NewReader(strings.Repeat("x", limit+1)), limit + 1, 413},
		"no JSON":       {"text/plain", strings.NewReader("{}"), 2, 415},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, io.NopCloser(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = c.length
		r.Header.Set("Content-Type", c.kind)
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if resp.ProtoMajor != 2 || resp.StatusCode != c.status {
			t.Errorf("%s: %s with status %d, want %d", name, resp.Proto, resp.StatusCode, c.status)
		}
		if got := resp.Header.Get("Connection"); got != "" {
			t.Errorf("%s: HTTP/2 has no header Connection: %s", name, got)
		}
		resp.Body.Close()
	}
}

// The content of a body does not depend on how it arrives.
func TestReadJSONOddReaders(t *testing.T) {
	text := strings.Repeat("0123456789", 2000)
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"byte by byte":   iotest.OneByteReader,
		"halves":         iotest.HalfReader,
		"end with bytes": iotest.DataErrReader,
	} {
		for _, length := range []int64{-1, int64(len(text))} {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Content-Type", "application/json")
			r.Body, r.ContentLength = io.NopCloser(reader(strings.NewReader(text))), length
			w := httptest.NewRecorder()
			if body, _, ok := httpguard.ReadJSON(w, r, limit, nil); !ok || string(body) != text || cap(body) > 2*len(body)+4096 {
				t.Errorf("%s with length %d: %d bytes in %d, %s", name, length, len(body), cap(body), w.Body)
			}
			r.Body = io.NopCloser(reader(strings.NewReader(text)))
			if _, _, ok := httpguard.ReadJSON(httptest.NewRecorder(), r, int64(len(text)-1), nil); ok {
				t.Errorf("%s with length %d: a byte too many was taken", name, length)
			}
			r.Body, r.ContentLength = io.NopCloser(reader(strings.NewReader(text))), int64(len(text)+1)
			if _, _, ok := httpguard.ReadJSON(httptest.NewRecorder(), r, limit, nil); ok {
				t.Errorf("%s: a body was taken that lacks a byte", name)
			}
		}
	}
}

// FuzzAdmit checks that every request is admitted or answered, without headers that a
// foreign page could use.
func FuzzAdmit(f *testing.F) {
	f.Add("POST", "localhost", page, "POST", "mcp-param-x, cookie", true)
	f.Add("OPTIONS", "localhost:80", page, "\x00", "mcp-param-\r\n, mcp-param-*", true)
	f.Add("OPTIONS", "[::1%25x]:", "null", "", ",,", false)
	f.Add("\xff", "\u017f", "https://app.example.com:443", "X", strings.Repeat("mcp-param-a,", 9), true)
	g := guard(f, nil, []string{page})
	methods := []string{"GET", "POST"}
	f.Fuzz(func(t *testing.T, method, host, origin, asked, names string, withOrigin bool) {
		r := request("GET", host, locals["loopback"])
		r.Method = method
		if withOrigin {
			r.Header["Origin"] = []string{origin}
		}
		r.Header["Access-Control-Request-Method"] = []string{asked}
		r.Header["Access-Control-Request-Headers"] = []string{names}
		w := &once{ResponseRecorder: httptest.NewRecorder()}
		admitted := g.Admit(w, r, methods...)
		if admitted != (w.answers == 0) || w.answers > 1 {
			t.Fatalf("admitted: %t, and answered %d times", admitted, w.answers)
		}
		if admitted && !slices.Contains(methods, method) {
			t.Fatalf("the method %q is admitted", method)
		}
		if w.Body.Len() > 4096 {
			t.Fatalf("an answer of %d bytes", w.Body.Len())
		}
		for name, values := range w.Header() {
			for _, value := range values {
				if strings.ContainsAny(value, "\r\n\x00") {
					t.Fatalf("%s is %q", name, value)
				}
			}
		}
		allowed := w.Header().Get("Access-Control-Allow-Origin")
		if allowed != "" && (allowed != origin || !strings.HasPrefix(strings.ToLower(allowed), page)) {
			t.Fatalf("%q may read answers to %q", allowed, origin)
		}
		for name := range strings.SplitSeq(w.Header().Get("Access-Control-Allow-Headers"), ", ") {
			if name == "*" || strings.Contains(name, "cookie") && !strings.HasPrefix(name, "mcp-param-") {
				t.Fatalf("pages may send the header %q", name)
			}
		}
	})
}

// once counts answers.
type once struct {
	*httptest.ResponseRecorder
	answers int
}

func (o *once) WriteHeader(status int) {
	o.answers++
	o.ResponseRecorder.WriteHeader(status)
}

// FuzzContentType checks that ReadJSON accepts nothing that a page may send without a
// preflight: Fetch Standard, section "CORS-safelisted request-header".
func FuzzContentType(f *testing.F) {
	for _, line := range []string{"application/json", "application/json;charset=utf-8", "text/plain;a=application/json", "application/json\x00", "APPLICATION/JSON ; charset=\"UTF-8\"", "application/json,text/plain"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
		r.Header["Content-Type"] = []string{line}
		if _, _, ok := httpguard.ReadJSON(httptest.NewRecorder(), r, limit, nil); !ok {
			return
		}
		kind, _, _ := strings.Cut(line, ";")
		if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
			t.Fatalf("a body of type %q is read", line)
		}
		if _, params, err := mime.ParseMediaType(line); err != nil || len(params) > 1 {
			t.Fatalf("a body of type %q is read: %v, %v", line, params, err)
		}
	})
}

// A client that announces the body of a GET and does not send it gets its answer, and its connection ends.
func TestBodyOfGetIsAbandoned(t *testing.T) {
	guard, err := httpguard.NewGuard(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if guard.Admit(w, r, http.MethodGet) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer web.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", web.Listener.Addr())
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("the answer is %q, and the connection: %v", answer, err)
	}
}

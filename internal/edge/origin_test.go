package edge_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/edge"
)

var appOrigins = []string{"https://app.example.com", "https://other.example:8443", "http://[2001:db8::1]", "vscode-webview://1a2b", "HTTPS://Upper.example:443"}

// originCases: what is sent, and whether it passes because it is listed or because
// both page and connection are of this machine.
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

// A page that reaches the server under its own name, as DNS rebinding does, is of no
// origin that is trusted for it.
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
		_, err := edge.NewGuard(nil, []string{"https://ok.example", origin})
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

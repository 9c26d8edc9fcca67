package edge_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/edge"
)

// spellings of Host, and whether they name this machine to everyone.
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

// On loopback, and where nothing is known, only loopback names pass; elsewhere there
// is nothing to protect from a name.
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

// Listed hosts are added on loopback, and are all there are elsewhere.
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
		if got := g.Admit(httptest.NewRecorder(), request("GET", "localhost:80", local), "GET"); got != strict[name] {
			t.Errorf("%s: localhost is admitted: %t, want %t", name, got, strict[name])
		}
	}
}

func TestNewGuardRefusesWhatIsNoHost(t *testing.T) {
	for _, host := range []string{
		"", "*", "*.example.com", "https://example.com", "example.com/", "example.com:https", "example.com:65536",
		"a b", "b\u00fccher.example", "::1", "10.0.0", "user@example.com", "example..com", "example.com,other.example",
	} {
		_, err := edge.NewGuard([]string{"ok.example", host}, nil)
		if err == nil {
			t.Errorf("the host %q was taken", host)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, "Hosts: ") || !strings.Contains(text, "expected") {
			t.Errorf("the error %q does not say what was expected where", text)
		}
	}
}

// The address that a real connection has is the one that is looked at.
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

// namesLoopback is another way to find out, as far from the first as possible.
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
		if listed.Admit(httptest.NewRecorder(), request("GET", host, locals["public"]), "GET") &&
			!strings.HasPrefix(strings.ToLower(host), "example.com") {
			t.Errorf("the host %q is admitted, which is not listed", host)
		}
	})
}

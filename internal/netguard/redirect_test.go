package netguard_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

// redirects answers /n with a redirect to /n-1, and /0 with what it got.
func redirects(w http.ResponseWriter, r *http.Request) {
	var n int
	fmt.Sscanf(r.URL.Path, "/%d", &n)
	if n > 0 {
		http.Redirect(w, r, fmt.Sprintf("/%d", n-1), http.StatusFound)
		return
	}
	fmt.Fprint(w, "here")
}

func TestRedirectsAreCounted(t *testing.T) {
	at := serve(t, redirects)
	guard := netguard.New(&netguard.Options{AllowLoopback: true})
	if body, err := get(t, guard, at+"/3"); err != nil || body != "here" {
		t.Errorf("three redirects: %q, %v", body, err)
	}
	_, err := get(t, guard, at+"/4")
	wantRefused(t, "four redirects", err)
}

func TestRedirectsToWhatMustNotBeReached(t *testing.T) {
	var to string
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	guard := netguard.New(&netguard.Options{AllowLoopback: true})
	guard.OnConnect(func(addr netip.AddrPort) error {
		if !addr.Addr().IsLoopback() {
			t.Errorf("%v was about to be connected to", addr)
			return errStop
		}
		return nil
	})
	for _, host := range notPublic {
		if strings.ContainsAny(host, " \t") || strings.Contains(strings.ToLower(host), "localhost") || strings.Contains(host, "127.") || strings.Contains(host, ":1]") {
			continue // no header, or this machine, where this guard may go
		}
		to = "https://" + host + "/"
		if _, err := get(t, guard, at); err == nil {
			t.Errorf("the redirect to %s was followed", to)
		}
	}
	for _, to = range []string{"http://8.8.8.8/", "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https://user:hush@example.com/", "//10.0.0.1/"} {
		_, err := get(t, guard, at)
		wantRefused(t, to, err)
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

// secure is a server that the guard takes for one of the public network.
func secure(t *testing.T, handler http.HandlerFunc, opts netguard.Options) (at string, guard *netguard.Guard) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	opts.TLS = &tls.Config{RootCAs: roots}
	opts.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	opts.Resolver = resolver(func(_ string, v6 bool, _ int) []netip.Addr {
		if v6 {
			return nil
		}
		return []netip.Addr{opts.Allow[0].Addr()}
	})
	u, _ := url.Parse(server.URL)
	return "https://example.com:" + u.Port(), netguard.New(&opts)
}

func TestRedirectFromElsewhereToThisMachine(t *testing.T) {
	inner := serve(t, func(w http.ResponseWriter, r *http.Request) { t.Error("this machine was reached") })
	to := ""
	at, guard := secure(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }, netguard.Options{AllowLoopback: true})
	for _, to = range []string{inner, strings.Replace(inner, "http:", "https:", 1), strings.Replace(inner, "127.0.0.1", "localhost", 1)} {
		_, err := get(t, guard, at)
		wantRefused(t, to, err)
	}
}

// A header may hold a token under any name: what leaves its origin leaves it behind,
// and does not get it back from there.
func TestCredentialsStayAtTheirOrigin(t *testing.T) {
	var first, second string
	got := make(map[string]http.Header)
	handler := func(w http.ResponseWriter, r *http.Request) {
		got[r.URL.Path] = r.Header
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, second+"/there", http.StatusFound)
		case "/back":
			http.Redirect(w, r, second+"/through", http.StatusFound)
		case "/through":
			http.Redirect(w, r, first+"/home", http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/inside", http.StatusFound)
		}
	}
	first, second = serve(t, handler), serve(t, handler)
	// The same host on another port, and another name of it.
	for _, second = range []string{second, strings.Replace(first, "127.0.0.1", "localhost", 1)} {
		clear(got)
		for _, path := range []string{"/away", "/back", "/within"} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, first+path+"?hush", nil)
			req.Header = http.Header{
				"Authorization": {"Bearer hush"}, "Cookie": {"hush"}, "X-Api-Key": {"hush"}, "If-None-Match": {"hush"},
				"Accept": {"text/plain"}, "User-Agent": {"test"},
			}
			res, err := netguard.New(&netguard.Options{AllowLoopback: true}).Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		for _, path := range []string{"/there", "/through", "/home"} {
			if got[path] == nil {
				t.Fatalf("%s was not reached", path)
			}
			if text := fmt.Sprint(got[path]); strings.Contains(text, "hush") {
				t.Errorf("%s got %s", path, text)
			}
			if got[path].Get("Accept") != "text/plain" || got[path].Get("User-Agent") != "test" {
				t.Errorf("%s got %v", path, got[path])
			}
		}
		if got["/inside"].Get("X-Api-Key") != "hush" || got["/inside"].Get("Authorization") != "Bearer hush" {
			t.Errorf("the same origin got %v", got["/inside"])
		}
		if got["/inside"].Get("Referer") != "" {
			t.Errorf("the query went along in %q", got["/inside"].Get("Referer"))
		}
	}
}

// The body of a request to a token endpoint is a secret.
func TestOnlyGetAndHeadAreRedirected(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Errorf("%d: the redirect of a POST was followed with %s", status, r.Method)
			}
			http.Redirect(w, r, "/elsewhere", status)
		})
		_, err := netguard.New(&netguard.Options{AllowLoopback: true}).Client().Post(at+"/", "text/plain", strings.NewReader("hush"))
		wantRefused(t, fmt.Sprint(status), err)
	}
	at := serve(t, redirects)
	res, err := netguard.New(&netguard.Options{AllowLoopback: true}).Client().Head(at + "/1")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

func TestRedirectFromHTTPSToHTTP(t *testing.T) {
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) { t.Error("https was left") })
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain, http.StatusFound) }))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, err := get(t, netguard.New(&netguard.Options{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}}), server.URL)
	wantRefused(t, "from https to http on this machine", err)
}

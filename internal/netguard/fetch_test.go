package netguard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

func TestGet(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		fmt.Fprintf(w, "%s %s %q", r.Method, r.URL, r.Header["Accept-Encoding"])
	})
	body, header, err := netguard.New(&netguard.Options{AllowLoopback: true}).Get(t.Context(), at+"/a?b=c", 100)
	if err != nil || string(body) != "GET /a?b=c []" || header.Get("ETag") != `"1"` {
		t.Errorf("the body is %q, the header %v, the error %v", body, header, err)
	}
}

// Connections are not reused.
func TestConnectionsAreNotKept(t *testing.T) {
	guard := netguard.New(&netguard.Options{AllowLoopback: true})
	connections := 0
	guard.OnConnect(func(netip.AddrPort) error {
		connections++
		return nil
	})
	at := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x") })
	for range 3 {
		if _, err := get(t, guard, at); err != nil {
			t.Fatal(err)
		}
	}
	if connections != 3 {
		t.Errorf("connected %d times for 3 fetches", connections)
	}
}

func TestConnectionsAreKeptByOptIn(t *testing.T) {
	var mu sync.Mutex
	remotes := map[string]bool{}
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		remotes[r.RemoteAddr] = true
	})
	guard := netguard.New(&netguard.Options{AllowLoopback: true, KeepAlive: time.Minute})
	for _, want := range []int{1, 1, 2} {
		if len(remotes) == 1 && want == 2 {
			guard.Close()
		}
		if _, err := get(t, guard, url); err != nil {
			t.Fatal(err)
		}
		if len(remotes) != want {
			t.Errorf("there were %d connections, want %d", len(remotes), want)
		}
	}
	guard.Close()
}

func TestStatusThatIsNoSuccess(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	_, err := get(t, netguard.New(&netguard.Options{AllowLoopback: true}), at)
	if status, ok := errors.AsType[*netguard.StatusError](err); !ok || status.Status != http.StatusTeapot || !strings.Contains(err.Error(), "teapot") {
		t.Errorf("the error is %v", err)
	}
	if got := (&netguard.StatusError{Status: 799}).Error(); !strings.HasSuffix(got, "799") {
		t.Errorf("the error of an unknown status is %q", got)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
		} else {
			w.Header().Set("Content-Length", "1000")
		}
		io.WriteString(w, strings.Repeat("x", 1000))
	})
	for _, path := range []string{"/sized", "/chunked"} {
		for _, c := range []struct {
			maxBody, limit int64
			fits           bool
		}{{0, 0, true}, {1000, 0, true}, {999, 0, false}, {0, 1000, true}, {0, 999, false}, {999, 5000, false}, {5000, 999, false}, {1, 0, false}, {math.MaxInt64, 0, true}} {
			guard := netguard.New(&netguard.Options{AllowLoopback: true, MaxBody: c.maxBody})
			body, _, err := guard.Get(t.Context(), at+path, c.limit)
			tooLong, is := errors.AsType[*netguard.SizeError](err)
			if c.fits && (err != nil || len(body) != 1000) || !c.fits && (!is || tooLong.Max > 999 || body != nil) {
				t.Errorf("%s, %+v: %d bytes, %v", path, c, len(body), err)
			}
		}
	}
	// A caller cannot raise the limit of the guard.
	client := netguard.New(&netguard.Options{AllowLoopback: true, MaxBody: 999}).Client()
	res, err := client.Get(at + "/chunked")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if _, is := errors.AsType[*netguard.SizeError](err); !is || len(body) != 999 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if n, err := res.Body.Read(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("reading on gives %d bytes, %v", n, err)
	}
	res, err = client.Head(at + "/sized")
	if err != nil {
		t.Fatalf("HEAD, which has no body: %v", err)
	}
	res.Body.Close()
}

func TestTimeIsBounded(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})
	for _, path := range []string{"/header", "/body"} {
		guard := netguard.New(&netguard.Options{AllowLoopback: true, Timeout: 50 * time.Millisecond})
		if _, err := get(t, guard, at+path); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", path, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := netguard.New(&netguard.Options{AllowLoopback: true}).Get(ctx, at+path, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestErrorsOfTheNetworkAreWithoutSecrets(t *testing.T) {
	guard, _ := watched(t, netguard.Options{})
	_, err := get(t, guard, "https://8.8.8.8/?hush")
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("the error is %v", err)
	}
}

// The rules remain in force after a caller has changed the client.
func TestClientThatWasChanged(t *testing.T) {
	client := sealed(t, netguard.Options{}).Client()
	client.CheckRedirect, client.Timeout = nil, 0
	_, err := client.Get("http://example.com/")
	wantRefused(t, "http", err)
	body := &closes{Reader: strings.NewReader("x")}
	_, err = client.Post("https://10.0.0.1/", "text/plain", body)
	wantRefused(t, "a private address", err)
	if !body.closed {
		t.Error("the body was not closed")
	}
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
	})
	client = netguard.New(&netguard.Options{AllowLoopback: true}).Client()
	client.CheckRedirect = nil
	_, err = client.Get(at)
	wantRefused(t, "a redirect", err)
}

type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error {
	c.closed = true
	return nil
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	opts := netguard.Options{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}}
	if body, err := get(t, netguard.New(&opts), server.URL); err != nil || body == "" {
		t.Errorf("the body is %q, the error %v", body, err)
	}
	// A name that resolves to a network in Options.Allow.
	opts = netguard.Options{
		TLS: opts.TLS, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Resolver: resolver(func(_ string, v6 bool, _ int) []netip.Addr {
			if v6 {
				return nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}),
	}
	u, _ := url.Parse(server.URL)
	if _, err := get(t, netguard.New(&opts), "https://example.com:"+u.Port()); err != nil {
		t.Error(err)
	}
	opts.TLS = nil
	if _, err := get(t, netguard.New(&opts), "https://example.com:"+u.Port()); err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	guard, connected := watched(t, netguard.Options{})
	get(t, guard, "https://8.8.8.8/")
	if got := connected(); len(got) != 1 || got[0] != netip.MustParseAddr("8.8.8.8") {
		t.Errorf("connects to %v", got)
	}
}

func TestProxyByOptIn(t *testing.T) {
	asked := make(chan string, 10)
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusBadGateway)
	})
	proxy, _ := url.Parse(at)
	opts := netguard.Options{Proxy: http.ProxyURL(proxy)}
	guard := sealed(t, opts)
	if _, err := get(t, guard, "https://example.com/"); err == nil {
		t.Error("the proxy refuses, and yet there is an answer")
	}
	if got := <-asked; got != "CONNECT example.com:443" {
		t.Errorf("the proxy was asked for %s", got)
	}
	for _, u := range []string{"https://10.0.0.1/", "http://example.com/", "https://localhost/", "https://127.1/"} {
		_, err := get(t, guard, u)
		wantRefused(t, u, err)
	}
	if len(asked) > 0 {
		t.Errorf("the proxy was asked for %s", <-asked)
	}
	// A request without a proxy is checked by address, and the proxy function is called
	// once.
	opts.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	guard, connected := watched(t, opts)
	get(t, guard, "https://8.8.8.8/")
	if len(connected()) != 1 {
		t.Error("without a proxy it is not connected to directly")
	}
	answers := []*url.URL{proxy, nil}
	opts.Proxy = func(*http.Request) (*url.URL, error) {
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	}
	if _, err := get(t, sealed(t, opts), "https://example.com/"); err == nil || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("a proxy that is gone gives %v", err)
	}
	opts.Proxy = func(*http.Request) (*url.URL, error) { return nil, errStop }
	if _, err := get(t, sealed(t, opts), "https://example.com/"); !errors.Is(err, errStop) {
		t.Errorf("a proxy that cannot be chosen gives %v", err)
	}
}

// redirects redirects /n to /n-1, and responds to /0 with the request's headers.
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

// secure starts a TLS server at an address that the guard treats as public.
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

// Only harmless headers are sent to another origin, also after a redirect back.
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

// A request with a body is not redirected, because the body may hold a secret.
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

func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"keys":[]}`)
	}))
	defer server.Close()

	_, _, err := netguard.New(nil).Get(context.Background(), "https://169.254.169.254/latest/meta-data", 0)
	if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
		fmt.Println(refused.Reason)
	}

	local := netguard.New(&netguard.Options{AllowLoopback: true})
	body, _, err := local.Get(context.Background(), server.URL, 0)
	fmt.Printf("%s %v\n", body, err)
	// Output:
	// 169.254.169.254 is link-local (RFC 3927)
	// {"keys":[]} <nil>
}

package resources_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
)

// serveHTTP offers a resource of a local HTTP server.
func serveHTTP(t testing.TB, opts resources.HTTPOptions, handler http.HandlerFunc) *client.Session {
	t.Helper()
	origin := httptest.NewServer(handler)
	t.Cleanup(origin.Close)
	return serve(t, remote(t, origin.URL+"/doc?token=hush", opts))
}

func remote(t testing.TB, url string, opts resources.HTTPOptions) *server.Entry {
	t.Helper()
	opts.AllowLoopback = true
	if opts.URI == "" {
		opts.URI = "app:doc"
	}
	entry, err := resources.HTTP(url, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// Plain HTTP is for hosts that the operator names. The rules for addresses stay the same.
func TestHTTPAllowed(t *testing.T) {
	for url, want := range map[string]string{
		"http://weather.example/current":       "",
		"http://WEATHER.example:8080/current":  "",
		"http://10.0.0.7/current":              "10.0.0.7 is private (RFC 1918)",
		"http://weather.example.evil.example/": "its scheme must be https",
		"http://other.example/":                "its scheme must be https",
		"ftp://weather.example/":               "its scheme must be https",
		"https://other.example/":               "",
	} {
		_, err := resources.HTTP(url, &resources.HTTPOptions{AllowHTTP: []string{"weather.example", "10.0.0.7"}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
			return
		}
		io.WriteString(w, r.Host+" "+r.Header.Get("X-Key"))
	}))
	defer origin.Close()
	proxy := func(*http.Request) (*url.URL, error) { return url.Parse(origin.URL) } // the proxy looks up the name
	options := resources.HTTPOptions{
		Resource: server.Resource{URI: "weather://current", MIMEType: "text/plain"}, Header: http.Header{"X-Key": {"k"}},
		AllowHTTP: []string{"weather.example"}, Proxy: proxy,
	}
	entry, err := resources.HTTP("http://weather.example/current", &options)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, serve(t, entry), "weather://current"); got != "weather.example k" {
		t.Errorf("the content is %q", got)
	}
	if entry, err = resources.HTTP("http://weather.example/away", &options); err != nil {
		t.Fatal(err)
	}
	if _, err := read(serve(t, entry), "weather://current"); err == nil || !strings.Contains(err.Error(), "its scheme must be https") {
		t.Errorf("a redirect to another host: %v", err)
	}
}

func TestHTTPContents(t *testing.T) {
	for contentType, want := range map[string]struct{ mimeType, content string }{
		"text/html; charset=utf-8":      {"text/html", "<p>ü"},
		"application/json":              {"application/json", "{}"},
		"application/ld+json":           {"application/ld+json", "{}"},
		"image/png":                     {"image/png", "blob:\x89PNG"},
		"text/plain":                    {"text/plain", "blob:\xff\xfe"},
		"text/html; charset=iso-8859-1": {"text/html; charset=iso-8859-1", "blob:caf\xe9"},
		"text/plain; charset=utf-16":    {"text/plain; charset=utf-16", "blob:a\x00"},
		"nonsense":                      {"text/plain", "text"},
		"application/octet-stream":      {"application/octet-stream", "blob:text"},
	} {
		content, isBlob := strings.CutPrefix(want.content, "blob:")
		session := serveHTTP(t, resources.HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			io.WriteString(w, content)
		})
		contents, err := read(session, "app:doc")
		switch got := contents.(type) {
		case *mcp.TextResourceContents:
			if isBlob || got.Text != content || got.MIMEType != want.mimeType || got.URI != "app:doc" {
				t.Errorf("%s: %+v", contentType, got)
			}
		case *mcp.BlobResourceContents:
			if !isBlob || string(got.Blob) != content || got.MIMEType != want.mimeType || got.URI != "app:doc" {
				t.Errorf("%s: %+v", contentType, got)
			}
		default:
			t.Errorf("%s: %v", contentType, err)
		}
	}
	session := serveHTTP(t, resources.HTTPOptions{Resource: server.Resource{MIMEType: "application/yaml"}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		io.WriteString(w, "a: 1")
	})
	if got := text(t, session, "app:doc"); got != "a: 1" {
		t.Errorf("content %q", got)
	}
}

func TestHTTPDescription(t *testing.T) {
	entry, err := resources.HTTP("https://example.com/a?b", nil)
	if err != nil {
		t.Fatal(err)
	}
	for resource, err := range serve(t, entry).Resources(t.Context(), nil) {
		if err != nil || resource.URI != "https://example.com/a?b" || resource.Name != resource.URI || resource.MIMEType != "" {
			t.Errorf("listing %+v, %v", resource, err)
		}
	}
}

// A response with an ETag is revalidated.
func TestHTTPRevalidates(t *testing.T) {
	var version, sent, requests atomic.Int64
	version.Store(1)
	session := serveHTTP(t, resources.HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		tag := fmt.Sprintf(`"%d"`, version.Load())
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Type", "text/markdown")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent.Add(1)
		fmt.Fprintf(w, "version %d", version.Load())
	})
	for _, v := range []int64{1, 1, 1, 2, 2, 1} {
		version.Store(v)
		contents, err := read(session, "app:doc")
		if got, ok := contents.(*mcp.TextResourceContents); !ok || got.Text != fmt.Sprintf("version %d", v) || got.MIMEType != "text/markdown" {
			t.Errorf("version %d is %+v, %v", v, contents, err)
		}
	}
	if sent.Load() != 3 || requests.Load() != 6 {
		t.Errorf("%d responses with content for %d requests, want 3 for 6", sent.Load(), requests.Load())
	}
}

func TestHTTPDoesNotStore(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no tag": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "text") },
		"no-store": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Cache-Control", "private, No-Store")
			io.WriteString(w, "text")
		},
		"other status": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(http.StatusNonAuthoritativeInfo)
			io.WriteString(w, "text")
		},
		"long tag": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"`+strings.Repeat("x", 2000)+`"`)
			io.WriteString(w, "text")
		},
	} {
		session := serveHTTP(t, resources.HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
			if tags, requests := r.Header["If-None-Match"]; requests {
				t.Errorf("%s: requested %q", name, tags)
			}
			handler(w, r)
		})
		for range 2 {
			if got := text(t, session, "app:doc"); got != "text" {
				t.Errorf("%s: content %q", name, got)
			}
		}
	}
}

func TestHTTPFailures(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		reason  string // "": not found
	}{
		"404":         {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) }, ""},
		"410":         {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusGone) }, ""},
		"401":         {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "status 401 Unauthorized"},
		"500":         {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500"},
		"unasked 304": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotModified) }, "status 304"},
		"too long":    {func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 1001)) }, "longer than 1000 bytes"},
		"endlessDir": {func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 100)); err != nil {
					return
				}
			}
		}, "longer than 1000 bytes"},
		"silent":           {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "exceeded"},
		"Content-Encoding": {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Encoding", "gzip"); w.Write(nil) }, "Content-Encoding"},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("x"))
		}, "unexpected EOF"},
		"to elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/hush", http.StatusFound)
		}, "169.254.169.254 is link-local"},
		"to the disk": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/hush", http.StatusFound)
		}, "scheme"},
		"round": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/hush", http.StatusFound) }, "redirects"},
	} {
		session := serveHTTP(t, resources.HTTPOptions{MaxSize: 1000, Timeout: 100 * time.Millisecond}, c.handler)
		if c.reason == "" {
			wantNotFound(t, session, "app:doc")
			continue
		}
		wantFailed(t, session, "app:doc", c.reason)
		if _, err := read(session, "app:doc"); strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: the error contains a secret: %v", name, err)
		}
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	session := serve(t, remote(t, closed.URL+"/hush?hush", resources.HTTPOptions{}))
	wantFailed(t, session, "app:doc", "cannot be fetched")
	if _, err := read(session, "app:doc"); strings.Contains(fmt.Sprint(err), "hush") {
		t.Errorf("the error contains a secret: %v", err)
	}
}

func TestHTTPHeader(t *testing.T) {
	var mu sync.Mutex
	got := make(map[string]string)
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { note(r); io.WriteString(w, "text") }))
	defer other.Close()
	header := http.Header{"Authorization": {"a"}, "x-api-key": {"b"}}
	session := serveHTTP(t, resources.HTTPOptions{Header: header}, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.Redirect(w, r, other.URL+"/other", http.StatusFound)
	})
	header.Set("Authorization", "late")
	if got := text(t, session, "app:doc"); got != "text" {
		t.Errorf("content %q", got)
	}
	if got["/doc"] != "ab" || got["/other"] != "" {
		t.Errorf("the request has %q", got)
	}
}

func TestHTTPPublicHostsOnly(t *testing.T) {
	for _, u := range []string{
		"", "doc", "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/",
		"https://169.254.169.254/latest/meta-data", "https://user:hush@example.com/", "https://0x7f000001/", "https://[64:ff9b::a9fe:a9fe]/",
	} {
		if _, err := resources.HTTP(u, &resources.HTTPOptions{Resource: server.Resource{URI: "app:doc"}}); err == nil {
			t.Errorf("%s is accepted", u)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
	for u, opts := range map[string]*resources.HTTPOptions{
		"https://10.0.0.1/": {Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		"http://localhost/": {AllowLoopback: true},
	} {
		if _, err := resources.HTTP(u, opts); err != nil {
			t.Errorf("%s is allowed: %v", u, err)
		}
	}
}

func TestHTTPProxy(t *testing.T) {
	requests := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Host
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	at, _ := url.Parse(proxy.URL)
	entry, err := resources.HTTP("https://example.com/", &resources.HTTPOptions{Proxy: http.ProxyURL(at)})
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, serve(t, entry), "https://example.com/", "cannot be fetched")
	if got := <-requests; got != "example.com:443" {
		t.Errorf("the proxy request is for %s", got)
	}
}

func TestHTTPConcurrentReads(t *testing.T) {
	session := serveHTTP(t, resources.HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, "text")
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if got := text(t, session, "app:doc"); got != "text" {
					t.Errorf("content %q", got)
				}
			}
		})
	}
	wg.Wait()
}

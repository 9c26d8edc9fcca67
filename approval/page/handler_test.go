package page_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/internal/test/pagetest"
)

// request sends a request as a browser on this machine does.
func request(h http.Handler, method, target string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:8900"+target, nil)
	r.RequestURI = target // as a server has it
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	h := page.Handler(nil)
	for target, kind := range map[string]string{
		"/":         "text/html; charset=utf-8",
		"/page.css": "text/css; charset=utf-8",
		"/page.js":  "text/javascript; charset=utf-8",
		"/icon.svg": "image/svg+xml",
		"/nothing":  "text/plain; charset=utf-8",
	} {
		header := request(h, http.MethodGet, target, nil).Result().Header
		got := map[string]string{}
		for _, name := range []string{
			"Content-Type", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy",
			"Content-Security-Policy",
		} {
			got[name] = header.Get(name)
		}
		want := map[string]string{
			"Content-Type":                 kind,
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
		if header.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", target)
		}
	}
}

func TestCaching(t *testing.T) {
	h := page.Handler(nil)
	first := request(h, http.MethodGet, "/page.js", nil)
	tag := first.Header().Get("ETag")
	if tag == "" || first.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("the header is %v", first.Header())
	}
	again := request(h, http.MethodGet, "/page.js", http.Header{"If-None-Match": {tag}})
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("a conditional request gets %d with %d bytes, want %d", again.Code, again.Body.Len(), http.StatusNotModified)
	}
	titled := page.Handler(&page.Options{Title: "Doors"})
	if request(h, http.MethodGet, "/", nil).Header().Get("ETag") == request(titled, http.MethodGet, "/", nil).Header().Get("ETag") {
		t.Error("two pages have one tag")
	}
	if css := request(h, http.MethodGet, "/page.css", nil); css.Header().Get("ETag") == tag {
		t.Error("two files have one tag")
	}
}

func TestMethods(t *testing.T) {
	h := page.Handler(nil)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace} {
		w := request(h, method, "/", nil)
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	got, head := request(h, http.MethodGet, "/", nil), request(h, http.MethodHead, "/", nil)
	if head.Code != http.StatusOK || head.Body.Len() > 0 || head.Header().Get("ETag") != got.Header().Get("ETag") {
		t.Errorf("HEAD: %d with %d bytes", head.Code, head.Body.Len())
	}
}

func TestHosts(t *testing.T) {
	h := page.Handler(&page.Options{Hosts: []string{"desk.example"}})
	for host, want := range map[string]int{
		"localhost:8900": http.StatusOK, "127.0.0.1:8900": http.StatusOK, "[::1]:8900": http.StatusOK,
		"desk.example": http.StatusOK, "desk.example:8443": http.StatusOK,
		"evil.example": http.StatusForbidden, "desk.example.evil.example": http.StatusForbidden, "": http.StatusForbidden,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("the host %q: %d, want %d", host, w.Code, want)
		}
	}
	if w := request(h, http.MethodGet, "/", http.Header{"Origin": {"https://evil.example"}}); w.Code != http.StatusForbidden {
		t.Errorf("a page of another origin: %d", w.Code)
	}
}

func TestMounting(t *testing.T) {
	h := page.Handler(nil)
	mux := http.NewServeMux()
	mux.Handle("/plain/", h)
	mux.Handle("/a/stripped/", http.StripPrefix("/a/stripped", h))
	bare := http.StripPrefix("/bare: x", h)
	for _, test := range []struct {
		handler  http.Handler
		target   string
		want     int
		location string
	}{
		{h, "/", 200, ""},
		{h, "/page.js", 200, ""},
		{h, "/index.html", 200, ""},
		{h, "/web/", 200, ""}, // only the last element counts
		{h, "/other.js", 404, ""},
		{h, "/handler.go", 404, ""},
		{mux, "/plain/", 200, ""},
		{mux, "/plain/page.css", 200, ""},
		{mux, "/plain", 307, "/plain/"}, // by http.ServeMux
		{mux, "/a/stripped/", 200, ""},
		{mux, "/a/stripped/page.css", 200, ""},
		{mux, "/a/stripped", 307, "/a/stripped/"},
		{bare, "/bare:%20x", 308, "./bare:%20x/"},
		{bare, "/bare:%20x?y=//z", 308, "./bare:%20x/"},
		{bare, "/bare:%20x/", 200, ""},
	} {
		w := request(test.handler, http.MethodGet, test.target, nil)
		if w.Code != test.want || w.Header().Get("Location") != test.location {
			t.Errorf("%s: %d to %q, want %d to %q", test.target, w.Code, w.Header().Get("Location"), test.want, test.location)
		}
	}
}

func TestOptions(t *testing.T) {
	hostile := &page.Options{Channel: `/a"b&c`, Title: `</title><script src=//evil.example></script>`}
	body := request(page.Handler(hostile), http.MethodGet, "/", nil).Body.String()
	for _, want := range []string{
		`<body data-channel="/a&#34;b&amp;c">`,
		`<title>&lt;/title&gt;&lt;script src=//evil.example&gt;&lt;/script&gt;</title>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not hold %s", want)
		}
	}
	if body := request(page.Handler(nil), http.MethodGet, "/", nil).Body.String(); !strings.Contains(body, `data-channel="/approval"`) ||
		!strings.Contains(body, "<title>Approvals</title>") || strings.Contains(body, "{{") {
		t.Errorf("the defaults are not there:\n%s", body)
	}
	for name, opts := range map[string]*page.Options{
		"another host":   {Channel: "//evil.example/approval"},
		"a scheme":       {Channel: "wss://localhost/approval"},
		"a fragment":     {Channel: "/approval#x"},
		"no path":        {Channel: "?x"},
		"no host at all": {Hosts: []string{"a b"}},
	} {
		if !panics(func() { page.Handler(opts) }) {
			t.Errorf("%s: it does not panic", name)
		}
	}
	for _, channel := range []string{"approval", "../approval", "/a/b"} {
		page.Handler(&page.Options{Channel: channel})
	}
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// TestFiles: every file that the page loads exists and makes no markup from text, and every file is loaded.
func TestFiles(t *testing.T) { pagetest.Check(t, page.Handler(nil), page.Web) }

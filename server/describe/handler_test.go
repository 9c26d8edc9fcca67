package describe_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server/describe"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// send sends one request to a handler.
func send(t *testing.T, h http.Handler, method, path string, header map[string]string) *http.Response {
	t.Helper()
	req := httptest.NewRequest(method, "https://example.com"+path, http.NoBody)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result()
}

func TestHandler(t *testing.T) {
	s := full()
	s.Remotes = []describe.Remote{describe.NewRemote("https://example.com/mcp")}
	h, err := describe.Handler(s)
	if err != nil {
		t.Fatal(err)
	}
	card, err := s.Card()
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := describe.Catalog(s)
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for path, want := range map[string]struct{ mediaType, text string }{
		"/mcp/server-card":             {"application/mcp-server-card+json", string(card)},
		"/mcp/server-card?a=b":         {"application/mcp-server-card+json", string(card)},
		"/.well-known/ai-catalog.json": {"application/ai-catalog+json", string(catalog)},
	} {
		res := send(t, h, http.MethodGet, path, map[string]string{"Accept": want.mediaType})
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusOK || string(body) != want.text {
			t.Errorf("%s: status %d and %s", path, res.StatusCode, body)
		}
		for name, value := range map[string]string{
			"Content-Type": want.mediaType, "Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff",
			"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "GET",
			"Access-Control-Allow-Headers": "Content-Type, If-None-Match", "Access-Control-Expose-Headers": "ETag",
		} {
			if got := res.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", path, name, got, value)
			}
		}
		tags[path] = res.Header.Get("ETag")
		if res := send(t, h, http.MethodGet, path, map[string]string{"If-None-Match": tags[path]}); res.StatusCode != http.StatusNotModified || res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: unchanged, but status %d", path, res.StatusCode)
		}
		if res := send(t, h, http.MethodGet, path, map[string]string{"If-None-Match": `"other"`}); res.StatusCode != http.StatusOK {
			t.Errorf("%s: changed, but status %d", path, res.StatusCode)
		}
		if res := send(t, h, http.MethodHead, path, nil); res.StatusCode != http.StatusOK || res.ContentLength != int64(len(want.text)) {
			t.Errorf("%s: HEAD has status %d and %d bytes", path, res.StatusCode, res.ContentLength)
		}
		if res := send(t, h, http.MethodOptions, path, map[string]string{"Origin": "https://app.example.com", "Access-Control-Request-Method": "GET"}); res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Headers") != "Content-Type, If-None-Match" {
			t.Errorf("%s: OPTIONS has status %d", path, res.StatusCode)
		}
		if res := send(t, h, http.MethodPost, path, nil); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: POST has status %d", path, res.StatusCode)
		}
	}
	if a, b := tags["/mcp/server-card"], tags["/.well-known/ai-catalog.json"]; a == "" || a == b {
		t.Errorf("the entity tags are %q and %q", a, b)
	}
	for _, path := range []string{"/", "/mcp", "/server-card", "/mcp/server-card/"} {
		if res := send(t, h, http.MethodGet, path, nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s has status %d", path, res.StatusCode)
		}
	}
}

func TestHandlerErrors(t *testing.T) {
	a, b := full(), full()
	b.Name = "com.example/other"
	a.Remotes = []describe.Remote{describe.NewRemote("https://a.example.com/mcp")}
	b.Remotes = []describe.Remote{describe.NewRemote("https://b.example.com/mcp/")}
	if _, err := describe.Handler(a, b); err == nil || !strings.Contains(err.Error(), `two documents have the path "/mcp/server-card"`) {
		t.Errorf("two cards at one path: %v", err)
	}
	if _, err := describe.Handler(describe.Server{}); err == nil {
		t.Error("an empty description was accepted")
	}
}

// A client finds the server in the catalog of its domain, connects, and gets what the card says.
func TestBesideEndpoint(t *testing.T) {
	s := newServer(nil)
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	endpoint := streamable.Handler(s, nil)
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		endpoint.Close()
		web.Close()
	})
	d := describe.Of(s)
	d.Remotes = []describe.Remote{describe.NewRemote(web.URL + "/mcp")}
	cards, err := describe.Handler(d)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/mcp", endpoint)
	mux.Handle("/", cards)

	found := discoverAll(t, web.URL, &describe.DiscoverOptions{AllowLoopback: true})
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	session, err := client.Connect(t.Context(), streamable.Dial(found[0].Remotes[0].URL, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if info := session.Server(); info.Name != found[0].Name || info.Version != found[0].Version || session.Version() != found[0].Remotes[0].Versions[0] {
		t.Errorf("the server is %+v in version %s, the card says %+v", info, session.Version(), found[0])
	}
}

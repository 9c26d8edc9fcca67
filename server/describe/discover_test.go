package describe_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/describe"
)

// discoverAll returns the servers of an origin.
func discoverAll(t *testing.T, origin string, opts *describe.DiscoverOptions) (list []describe.Server) {
	t.Helper()
	for s, err := range describe.Discover(t.Context(), origin, opts) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// A site serves texts by path over TLS. SITE in a text is its URL.
func newSite(t *testing.T, texts map[string]string) (origin string, opts *describe.DiscoverOptions) {
	t.Helper()
	var site *httptest.Server
	site = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Header.Get("Accept") == "application/mcp-server-card+json" == (r.URL.Path == "/.well-known/ai-catalog.json") {
			http.Error(w, "the wrong media type", http.StatusNotAcceptable)
			return
		}
		fmt.Fprint(w, strings.ReplaceAll(text, "SITE", site.URL))
	}))
	t.Cleanup(site.Close)
	roots := x509.NewCertPool()
	roots.AddCert(site.Certificate())
	return site.URL, &describe.DiscoverOptions{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}}
}

func cardText(name, remote string) string {
	return `{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": "example/` + name +
		`", "version": "1", "description": "d", "remotes": [{"type": "streamable-http", "url": "` + remote + `"}]}`
}

func catalogText(entries ...string) string {
	return `{"specVersion": "1.0", "host": {"displayName": "Example"}, "entries": [` + strings.Join(entries, ", ") + `]}`
}

func entryText(member string) string {
	return `{"identifier": "urn:air:example.com:mcp:a", "type": "application/mcp-server-card+json", ` + member + `}`
}

func TestDiscover(t *testing.T) {
	texts := map[string]string{
		"/.well-known/ai-catalog.json": catalogText(
			entryText(`"url": "SITE/a"`),
			`{"identifier": "x", "type": "application/a2a-agent-card+json", "url": "SITE/agent"}`,
			entryText(`"data": `+cardText("inline", "https://example.com/mcp")),
			`{"identifier": "x", "displayName": "Old", "mediaType": "application/mcp-server-card+json", "url": "SITE/old"}`,
			entryText(`"url": "SITE/absent"`),
			entryText(`"url": "SITE/broken"`),
			entryText(`"url": "SITE/private"`),
			entryText(`"url": "SITE/http"`),
			entryText(`"url": "https://10.0.0.1/a"`),
			entryText(`"url": "file:///etc/passwd"`),
			entryText(`"url": ":"`),
			entryText(`"url": "SITE/a", "data": {}`),
			entryText(`"tags": []`),
			entryText(`"url": "SITE/long"`),
			entryText(`"url": "SITE/last"`),
		),
		"/a": cardText("a", "https://example.com/mcp"), "/old": cardText("old", "https://example.com/mcp"),
		"/broken": "{", "/private": cardText("b", "https://10.0.0.1/mcp"), "/http": cardText("b", "http://example.com/mcp"),
		"/long": cardText("long", "https://example.com/mcp") + strings.Repeat(" ", 64<<10),
		"/last": cardText("last", "https://{x}.example.com/mcp\", \"variables\": {\"x\": {}}, \"y\": \""),
	}
	origin, opts := newSite(t, texts)
	want := []string{
		"example/a", "example/inline", "example/old", "status 404", "unexpected EOF", "10.0.0.1", "http://example.com", "10.0.0.1",
		"file:", "not a URL", "either url or data", "either url or data", "65536 bytes", "example/last",
	}
	i := 0
	for s, err := range describe.Discover(t.Context(), origin, opts) {
		got := s.Name
		if err != nil {
			got = err.Error()
		}
		if i >= len(want) || !strings.Contains(got, want[i]) {
			t.Errorf("%d: got %q, want %q", i, got, want[min(i, len(want)-1)])
		}
		i++
	}
	if i != len(want) {
		t.Errorf("got %d elements, want %d", i, len(want))
	}
}

// Without a catalog there is one error and no server.
func TestDiscoverWithoutCatalog(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"none":          {"", "status 404"},
		"not JSON":      {"<html>", "an AI catalog"},
		"other version": {`{"specVersion": "2.0", "entries": []}`, "specVersion 1"},
		"too long":      {catalogText() + strings.Repeat(" ", 1<<20), "1048576 bytes"},
		"duplicate":     {`{"specVersion": "1.0", "entries": [], "entries": []}`, "duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			texts := map[string]string{}
			if test.text != "" {
				texts["/.well-known/ai-catalog.json"] = test.text
			}
			origin, opts := newSite(t, texts)
			wantOneError(t, describe.Discover(t.Context(), origin+"/", opts), test.want)
		})
	}
}

func wantOneError(t *testing.T, servers func(func(describe.Server, error) bool), want string) {
	t.Helper()
	count := 0
	for _, err := range servers {
		count++
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if count != 1 {
		t.Errorf("got %d elements, want 1", count)
	}
}

// By default, only public addresses are asked, by https.
func TestDiscoverRefuses(t *testing.T) {
	origin, opts := newSite(t, map[string]string{"/.well-known/ai-catalog.json": catalogText()})
	if got := discoverAll(t, origin, opts); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	opts.AllowLoopback = false
	wantOneError(t, describe.Discover(t.Context(), origin, opts), "127.0.0.1")
	wantOneError(t, describe.Discover(t.Context(), "http://example.com", nil), "example.com")
	wantOneError(t, describe.Discover(t.Context(), "example.com", nil), "example.com")
	wantOneError(t, describe.Discover(t.Context(), "https://169.254.169.254", nil), "169.254.169.254")
}

func TestDiscoverIsBounded(t *testing.T) {
	entry := entryText(`"data": ` + cardText("a", "https://example.com/mcp"))
	origin, opts := newSite(t, map[string]string{"/.well-known/ai-catalog.json": catalogText(slices.Repeat([]string{entry}, 101)...)})
	for limit, want := range map[int]int{0: 100, 2: 2, 101: 101} {
		opts.MaxServers = limit
		found, last := 0, error(nil)
		for _, err := range describe.Discover(t.Context(), origin, opts) {
			if last = err; err == nil {
				found++
			}
		}
		if found != want || (last == nil) != (want == 101) {
			t.Errorf("MaxServers %d: found %d, want %d; the last error is %v", limit, found, want, last)
		}
	}
}

// The iteration ends with its loop, and with the context.
func TestDiscoverStops(t *testing.T) {
	origin, opts := newSite(t, map[string]string{
		"/.well-known/ai-catalog.json": catalogText(entryText(`"url": "SITE/a"`), entryText(`"url": "SITE/a"`)),
		"/a":                           cardText("a", "https://example.com/mcp"),
	})
	for range describe.Discover(t.Context(), origin, opts) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	for range describe.Discover(ctx, origin, opts) {
		count++
		cancel()
	}
	if count != 1 {
		t.Errorf("%d elements after the end of the context", count)
	}
}

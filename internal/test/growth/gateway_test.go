//go:build soak

package growth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// gatewayRows are those of what runs a bridge for others: gateways, configurations, child processes, logins and limits.
func gatewayRows() []row {
	return []row{
		{of: "users of a gateway", operation: "call of one", n: 100, prepare: func(tb testing.TB, n int) func() {
			g := newGateway(tb, serverWithTools(1))
			var token string
			for i := range n {
				token, _ = g.Authenticator().Issue(fmt.Sprint("user", i))
			}
			return func() { ask(tb, g.REST(nil), token, http.MethodPost, "/tools/tool0") }
		}},
		{of: "tools of a gateway", operation: "call over REST", n: 100, prepare: func(tb testing.TB, n int) func() {
			g := newGateway(tb, serverWithTools(n))
			handler, token := g.REST(nil), g.Authenticator().Token()
			return func() { ask(tb, handler, token, http.MethodPost, "/tools/tool0") }
		}},
		{of: "tools of a gateway", operation: "list over REST", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			g := newGateway(tb, serverWithTools(n))
			handler, token := g.REST(nil), g.Authenticator().Token()
			return func() { ask(tb, handler, token, http.MethodGet, "/tools") }
		}},
		{of: "tools of a gateway", operation: "OpenAPI document", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			g := newGateway(tb, serverWithTools(n))
			handler, token := g.REST(nil), g.Authenticator().Token()
			return func() { ask(tb, handler, token, http.MethodGet, "/openapi.json") }
		}},
		{of: "upstreams of a gateway", operation: "call of a program in a sandbox", n: 10, prepare: func(tb testing.TB, n int) func() {
			g := newGateway(tb, bridgeServer(tb, upstreams(n, 5)))
			handler, token := g.Proxy(), g.Authenticator().Token()
			return func() { ask(tb, handler, token, http.MethodPost, "/server0/tools/tool0") }
		}},
		{of: "upstreams of a gateway", operation: "list of servers", n: 10, whole: true, prepare: func(tb testing.TB, n int) func() {
			g := newGateway(tb, bridgeServer(tb, upstreams(n, 5)))
			handler, token := g.Proxy(), g.Authenticator().Token()
			return func() { ask(tb, handler, token, http.MethodGet, "/servers") }
		}},
		{of: "servers of a configuration", operation: "parse and expand", n: 16, whole: true, prepare: func(tb testing.TB, n int) func() {
			text := configuration(n, `{"command":"server","args":["--root","${ROOT:-/srv}"],"env":{"A":"1"}}`)
			return func() { parse(tb, text) }
		}},
		{of: "servers of a configuration", operation: "parse with a warning for each", n: 16, whole: true, prepare: func(tb testing.TB, n int) func() {
			text := configuration(n, `{"command":"server","unknown":true}`)
			return func() { parse(tb, text) }
		}},
		{
			of: "processes on the host", operation: "start, call and end of a child", n: 10,
			reason: "at the end of a child its descendants are looked for among all processes, since they may have left its group",
			prepare: func(tb testing.TB, n int) func() {
				for range n {
					other := exec.Command("sleep", "600")
					if err := other.Start(); err != nil {
						tb.Fatal(err)
					}
					tb.Cleanup(func() {
						_ = other.Process.Kill() // it has not ended
						_ = other.Wait()         // it was killed
					})
				}
				child := stdio.Command(os.Args[0], []string{"-test.run=^TestChild$"}, &stdio.CommandOptions{Env: []string{childVariable + "=1"}})
				return func() {
					session, err := client.Connect(tb.Context(), child, nil)
					if err != nil {
						tb.Fatal(err)
					}
					call(tb, session, "tool0", nil)
					if err := session.Close(); err != nil {
						tb.Fatal(err)
					}
				}
			}},
		{of: "stored logins in memory", operation: "save and load", n: 100, prepare: func(tb testing.TB, n int) func() {
			return saveAndLoad(tb, oauth.NewMemoryStore(), n)
		}},
		{
			of: "stored logins in a file", operation: "save and load", n: 10, whole: true, prepare: func(tb testing.TB, n int) func() {
				store, err := oauth.NewFileStore(filepath.Join(tb.TempDir(), "tokens"), []byte(strings.Repeat("k", 32)))
				if err != nil {
					tb.Fatal(err)
				}
				return saveAndLoad(tb, store, n)
			},
		},
		{of: "API keys", operation: "verification of one", n: 100, prepare: func(tb testing.TB, n int) func() {
			keys := make([]oauth.APIKey, n)
			for i := range keys {
				keys[i] = oauth.APIKey{Hash: oauth.HashAPIKey(apiKey(i)), Subject: fmt.Sprint("user", i)}
			}
			verifier, err := oauth.NewAPIKeyVerifier("https://example.com", keys)
			if err != nil {
				tb.Fatal(err)
			}
			return func() {
				if _, err := verifier.Verify(tb.Context(), apiKey(0), ""); err != nil {
					tb.Fatal(err)
				}
			}
		}},
		{of: "principals with calls", operation: "begin and end of a call within the limits", n: 100, prepare: func(tb testing.TB, n int) func() {
			q := quota.New("calls", n+1, 2)
			for i := range n {
				if err := q.Acquire(quota.HolderOf(fmt.Sprint("user", i), "")); err != nil {
					tb.Fatal(err)
				}
			}
			one := quota.HolderOf("user0", "")
			return func() {
				if err := q.Acquire(one); err != nil {
					tb.Fatal(err)
				}
				q.Release(one)
			}
		}},
	}
}

const childVariable = "GROWTH_CHILD"

// TestChild is a server with one tool, in a process that a test starts with childVariable.
func TestChild(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("it runs in a child process only")
	}
	if err := stdio.Serve(context.Background(), serverWithTools(1), nil); err != nil {
		panic(err)
	}
	os.Exit(0) // without the output of a test
}

func newGateway(tb testing.TB, s *server.Server) *gateway.Gateway {
	tb.Helper()
	return gateway.New(s, &gateway.Options{Logger: silent})
}

func ask(tb testing.TB, handler http.Handler, token, method, path string) {
	tb.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		tb.Fatal(w.Code, w.Body)
	}
}

func configuration(n int, entry string) []byte {
	text := []byte(`{"mcpServers":{`)
	for i := range n {
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = fmt.Appendf(text, `"server%d":%s`, i, entry)
	}
	return append(text, "}}"...)
}

func parse(tb testing.TB, text []byte) {
	tb.Helper()
	file, err := config.Parse(text, "servers.json")
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := file.Expand(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
}

func apiKey(i int) oauth.Secret { return oauth.Secret(fmt.Sprintf("key-of-user-%026d", i)) }

// saveAndLoad returns a function that saves and loads one of n logins.
func saveAndLoad(tb testing.TB, store oauth.TokenStore, n int) func() {
	tb.Helper()
	save := func(i int) {
		if err := store.Save(tb.Context(), fmt.Sprint("https://example.com/", i), oauth.Secret(strings.Repeat("t", 1000))); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range n {
		save(i)
	}
	return func() {
		save(0)
		if _, err := store.Load(tb.Context(), "https://example.com/0"); err != nil {
			tb.Fatal(err)
		}
	}
}

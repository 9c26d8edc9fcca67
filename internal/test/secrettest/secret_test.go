package secrettest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// childVariable makes the test binary a server that writes its key to standard error.
const childVariable = "SECRETTEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "serve":
		fmt.Fprintln(os.Stderr, "starting with", os.Getenv("API_KEY"))
		s := server.New(mcp.Implementation{Name: "child", Version: "1"}, nil)
		server.AddTool(s, server.Tool{Name: "echo"}, func(context.Context, *server.Request, struct{}) (string, error) { return "echo", nil })
		server.AddTool(s, server.Tool{Name: "exit"}, func(context.Context, *server.Request, struct{}) (string, error) {
			fmt.Fprintln(os.Stderr, "cannot use", os.Getenv("API_KEY"))
			os.Exit(3)
			return "", nil
		})
		_ = stdio.Serve(context.Background(), s, nil) // the parent sees the end
		return
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot use", os.Getenv("API_KEY"))
		os.Exit(3)
	}
	leaktest.Main(m)
}

// Secrets are random texts that no output may contain.
type secrets struct {
	t     *testing.T
	texts map[string]string // by what they are
}

func newSecrets(t *testing.T) *secrets { return &secrets{t, map[string]string{}} }

// new returns a secret. The name says what it is.
func (s *secrets) new(name string) string {
	text := "secret-" + rand.Text()
	s.texts[name] = text
	return text
}

// search reports the secrets that an output contains: as they are, or in another encoding.
func (s *secrets) search(where, output string) {
	s.t.Helper()
	for name, text := range s.texts {
		forms := map[string]string{"plain": text, "hexadecimal": hex.EncodeToString([]byte(text)), "without its prefix": strings.TrimPrefix(text, "secret-")}
		for shift := range 3 { // the text may begin at any place of a group of three bytes
			encoded := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + text))
			forms[fmt.Sprint("base64, shift ", shift)] = encoded[4 : len(encoded)-4]
		}
		for form, searched := range forms {
			if at := strings.Index(output, searched); at >= 0 {
				s.t.Errorf("%s contains the %s (%s): %q", where, name, form, output[max(0, at-300):min(len(output), at+100)])
				break
			}
		}
	}
}

// A recorder is everything that is written to it.
type recorder struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *recorder) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// mirror answers every request with an error and everything that it contains.
func mirror(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_ = r.Write(w) // the client sees what is missing
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// get sends a request and returns all of the response.
func get(t *testing.T, method, target, token, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return fmt.Sprint(response.StatusCode, response.Header, string(text), err)
}

// The servers of a configuration file fail in every way. Neither the log of the bridge, nor the
// states, nor the answers to callers contain keys, headers or passwords of the file.
func TestSecretsOfConfiguration(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s, out := newSecrets(t), &recorder{}
	at := mirror(t)
	child := func(kind string) map[string]any {
		env := map[string]string{childVariable: kind, "API_KEY": s.new("key of " + kind), "GORACE": "atexit_sleep_ms=0"}
		return map[string]any{"command": os.Args[0], "env": env}
	}
	remote := func(kind, target string) map[string]any {
		return map[string]any{"type": kind, "url": target, "headers": map[string]string{
			"Authorization": "Bearer " + s.new("token for "+target), "X-Api-Key": s.new("header for " + target),
		}}
	}
	withPassword := func(base, name string) string {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("user", s.new("password of "+name))
		u.Path, u.RawQuery = "/mcp", "key="+s.new("query of "+name)
		return u.String()
	}
	t.Setenv("SECRETTEST_ARGUMENT", s.new("expanded argument"))
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"serve":   child("serve"),
		"exit":    child("exit"),
		"absent":  map[string]any{"command": "/nothing/${SECRETTEST_ARGUMENT}", "args": []string{"--key", "${SECRETTEST_ARGUMENT}"}},
		"part":    map[string]any{"command": "sh", "args": []string{"-c", "echo $0 | cut -c 9- >&2; exit 1", "--token=${SECRETTEST_ARGUMENT}"}},
		"args":    map[string]any{"command": "sh", "args": []string{"-c", "echo usage: $0 >&2; exit 1", "${SECRETTEST_ARGUMENT}"}},
		"http":    remote("http", withPassword(at, "http")),
		"sse":     remote("sse", withPassword(at, "sse")),
		"ws":      remote("ws", withPassword("ws"+strings.TrimPrefix(at, "http"), "ws")),
		"wsquery": remote("ws", "ws"+strings.TrimPrefix(at, "http")+"/mcp?key="+s.new("query of ws query")),
		"closed":  map[string]any{"type": "http", "url": withPassword("http://127.0.0.1:1", "closed")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(text, "mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	configs, err := file.Bridge(t.Context(), &config.Expander{}, &config.DialOptions{Stderr: out, Logger: out.logger()})
	if err != nil {
		fmt.Fprintln(out, err)
	}
	for i := range configs {
		configs[i].ConnectTimeout = 5 * time.Second
	}
	b, err := bridge.New(&bridge.Options{Logger: out.logger(), StartTimeout: 10 * time.Second}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	all := server.New(mcp.Implementation{Name: "all", Version: "1"}, &server.Options{Logger: out.logger()})
	if err := all.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := all.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := gateway.New(all, &gateway.Options{States: b.States, Authenticator: mustAuthenticate(t, &gateway.AuthenticatorOptions{Open: true}), Logger: out.logger()})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/rest"); ok {
			r.URL.Path = rest
			plain.REST(nil).ServeHTTP(w, r)
			return
		}
		plain.Proxy().ServeHTTP(w, r)
	}))
	session, err := client.Connect(t.Context(), transport.Pipe(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"serve__echo", "serve__exit", "exit__x", "http__x", "absent__x"} {
		_, err := session.CallTool(t.Context(), tool, json.RawMessage(`{}`), nil)
		fmt.Fprintln(out, tool, err)
		s.search("an answer of REST", get(t, http.MethodPost, web.URL+"/rest/tools/call", "", `{"name":"`+tool+`","arguments":{}}`))
	}
	for name := range map[string]bool{"serve": true, "exit": true, "http": true, "closed": true, "absent": true} {
		s.search("an answer of the proxy", get(t, http.MethodPost, web.URL+"/"+name+"/tools/x", "", `{"arguments":{}}`))
	}
	s.search("an answer of the proxy", get(t, http.MethodGet, web.URL+"/servers", "", ""))
	s.search("an answer of the proxy", get(t, http.MethodGet, web.URL+"/health", "", ""))
	for _, state := range b.States() {
		fmt.Fprintf(out, "%+v %#v %v\n", state, state.Status, state.Err)
		if state.Alias != "serve" && state.Err == nil {
			t.Errorf("the server %s has not failed", state.Alias)
		}
	}
	for _, c := range configs {
		fmt.Fprintf(out, "%v %+v %s\n", c.Alias, c.ProxyOptions.Launch, fmt.Sprintf("%v", c.Dialer))
	}
	session.Close()
	web.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	if err := errors.Join(plain.Shutdown(ctx), all.Shutdown(ctx)); err != nil {
		fmt.Fprintln(out, err)
	}
	s.search("the log", out.String())
	for _, want := range []string{"starting with", "cannot use", "exit status 3", "401"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, out)
		}
	}
}

func mustAuthenticate(t *testing.T, o *gateway.AuthenticatorOptions) *gateway.Authenticator {
	t.Helper()
	a, err := gateway.NewAuthenticator(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

//go:build unix

package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
)

// A rig is a server with control routes.
type rig struct {
	t       *testing.T
	shell   *shell.Shell
	control *control.Control
	web     *httptest.Server
}

func newRig(t *testing.T, opts control.Options) *rig {
	t.Helper()
	w, err := workspace.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t}
	if r.shell, err = shell.New(guard, w, &shell.Options{Env: process.Variables("GORACE")}); err != nil {
		t.Fatal(err)
	}
	opts.Shell = r.shell
	if r.control, err = control.New(&opts); err != nil {
		t.Fatal(err)
	}
	r.web = httptest.NewServer(r.control)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		r.web.Close()
		r.control.Close()
		if err := errors.Join(r.shell.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// send sends a request with the token and returns the status and body of the response.
func (r *rig) send(method, path, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.web.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+r.control.Authenticator().Token())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestWrongOptions(t *testing.T) {
	w, err := workspace.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	sh, err := shell.New(guard, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	for want, opts := range map[string]*control.Options{
		"Options.Shell": nil,
		"a port":        {Shell: sh, Sidecars: map[string]control.Sidecar{"x": {URL: "http://127.0.0.1", Command: []string{"x"}}}},
		"a command":     {Shell: sh, Sidecars: map[string]control.Sidecar{"x": {URL: "http://127.0.0.1:1"}}},
	} {
		if _, err := control.New(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Without servers there are no routes for them, and without a token nothing is changed.
func TestRoutes(t *testing.T) {
	r := newRig(t, control.Options{})
	for path, want := range map[string]int{"/custom-mcp": http.StatusNotFound, "/sidecars/x": http.StatusNotFound, "/credential": http.StatusBadRequest} {
		if status, body := r.send("POST", path, `{"mcpServers":{}}`); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := r.send("POST", "/sidecars/x", ""); status != http.StatusNotFound || body != `{"status":"error","message":"there is no sidecar of this name"}`+"\n" {
		t.Errorf("an unknown sidecar: %d %s", status, body)
	}
	for path, want := range map[string]int{"/health": http.StatusOK, "/credential": http.StatusUnauthorized, "/mcp/tool-server-url": http.StatusUnauthorized} {
		w := httptest.NewRecorder()
		method := http.MethodPost
		if want == http.StatusOK {
			method = http.MethodGet
		}
		r.control.ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1"+path, nil))
		if w.Code != want {
			t.Errorf("%s without a token: %d %s", path, w.Code, w.Body)
		}
	}
}

// Setting a tool server calls OnToolServer. If that returns an error, the request fails.
func TestOnToolServer(t *testing.T) {
	var set []string
	r := newRig(t, control.Options{OnToolServer: func(_ context.Context, url string) error {
		set = append(set, url)
		if len(set) > 1 {
			return errors.New("not again")
		}
		return nil
	}})
	tools := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer tools.Close()
	body := fmt.Sprintf(`{"tool_server_url":%q}`, tools.URL)
	if status, answer := r.send("POST", "/tool-server-url", body); status != http.StatusBadRequest || len(set) != 0 {
		t.Errorf("without a credential: %d %s", status, answer)
	}
	if status, answer := r.send("POST", "/credential", `{"user_api_key":"k","session_id":"s"}`); status != http.StatusOK {
		t.Fatal(answer)
	}
	if status, answer := r.send("POST", "/tool-server-url", body); status != http.StatusOK || len(set) != 1 || set[0] != tools.URL {
		t.Errorf("%d %s, %q", status, answer, set)
	}
	if status, answer := r.send("POST", "/tool-server-url", body); status != http.StatusInternalServerError || !strings.Contains(answer, "not again") {
		t.Errorf("an error of the program: %d %s", status, answer)
	}
}

// servers is a configuration of servers with the tool greet.
func servers(t *testing.T, names ...string) string {
	t.Helper()
	list := make(map[string]any)
	for _, name := range names {
		list[name] = map[string]any{"command": os.Args[0], "env": map[string]string{asServer: "1", "GORACE": "atexit_sleep_ms=0"}}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Servers come and go over HTTP; their number is bounded, and the names of others are reserved.
func TestServers(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	added, err := control.NewServers(&control.ServersOptions{
		Dial: &config.DialOptions{Wrap: guard.Wrap, Dir: t.TempDir(), Logger: logger}, Reserved: []string{"own"}, Max: 2, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "sandbox", Version: "1"}, &server.Options{Logger: logger})
	if err := s.Mount(added, &server.MountOptions{Prefix: control.Prefix}); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, control.Options{Servers: added})
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"POST", "/custom-mcp", servers(t, "one"), 200, `"tools":["mcp_one_greet"]`},
			{"POST", "/mcp/custom-mcp", servers(t, "two"), 200, `"tools":["mcp_two_greet"]`},
			{"POST", "/custom-mcp", servers(t, "three"), 409, "too many servers"},
			{"POST", "/custom-mcp", servers(t, "own"), 400, "reserved"},
			{"POST", "/custom-mcp", `{"mcpServers":{"one":{"command":"no-such-program"}}}`, 502, "no-such-program"},
			{"PUT", "/custom-mcp", servers(t, "one", "three"), 200, `"tools":["mcp_one_greet","mcp_three_greet"]`},
			{"DELETE", "/custom-mcp/three", "", 200, "success"},
			{"DELETE", "/custom-mcp/three", "", 404, "no such server"},
		} {
			if status, body := r.send(c.method, c.path, c.body); status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%v: %s %s: %d %s, want %d %s", era, c.method, c.path, status, body, c.status, c.want)
			}
		}
		if result, err := session.CallTool(t.Context(), "mcp_one_greet", json.RawMessage(`{}`), nil); err != nil || result.Content[0].(*mcp.TextContent).Text != "hello" {
			t.Errorf("%v: %+v %v", era, result, err)
		}
		if states := added.States(); len(states) != 1 || states[0].Alias != "one" {
			t.Errorf("%+v", states)
		}
		session.Close()
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	for names, want := range map[string]string{"own": "reserved", "a b c": "too many servers"} {
		if err := os.WriteFile(file, []byte(servers(t, strings.Fields(names)...)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := added.Load(t.Context(), file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file with %s: %v", names, err)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A request that arrives while the server starts waits for it.
func TestServersWhileStarting(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	added, err := control.NewServers(&control.ServersOptions{Dial: &config.DialOptions{Wrap: guard.Wrap, Dir: t.TempDir(), Logger: logger}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, control.Options{Servers: added})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if status, body := r.send("POST", "/custom-mcp", servers(t, "one")); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	}()
	select {
	case <-ended:
		t.Error("the request has ended before the server has started")
	case <-time.After(200 * time.Millisecond):
	}
	s := server.New(mcp.Implementation{Name: "sandbox", Version: "1"}, &server.Options{Logger: logger})
	if err := errors.Join(s.Mount(added, nil), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A closed control starts nothing.
func TestSidecarsAfterClose(t *testing.T) {
	r := newRig(t, control.Options{Sidecars: map[string]control.Sidecar{"x": {URL: "http://127.0.0.1:1", Command: []string{"sleep", "61"}}}})
	r.control.Close()
	if status, body := r.send("POST", "/sidecars/x", ""); status != http.StatusInternalServerError || !strings.Contains(body, process.ErrClosed.Error()) {
		t.Errorf("%d %s", status, body)
	}
}

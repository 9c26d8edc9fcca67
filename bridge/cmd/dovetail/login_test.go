package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A quickPerson opens the URL that dovetail prints to standard error.
type quickPerson struct {
	bytes.Buffer
	logins atomic.Int32
}

var loginURL = regexp.MustCompile(`open (http://\S+)`)

func (p *quickPerson) Write(text []byte) (int, error) {
	if match := loginURL.FindSubmatch(text); match != nil {
		p.logins.Add(1)
		res, err := http.Get(string(match[1]))
		if err != nil {
			return 0, err
		}
		res.Body.Close()
	}
	return p.Buffer.Write(text)
}

// A loginServer is an MCP server that demands tokens, and its authorization server.
type loginServer struct {
	resource string
	verifier oauth.Verifier
	token    atomic.Pointer[string] // of the last request
}

// newLoginServer starts the server and its authorization server. It gives this process and its child processes a home
// folder without tokens and no browser, and returns the folder.
// change, if given, changes the options of the authorization server.
func newLoginServer(t *testing.T, change ...func(*oauthtest.Options)) (s *loginServer, home string) {
	home = t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH"} {
		t.Setenv(name, filepath.Join(home, name)) // there is no browser on that path
		if err := os.Mkdir(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	opts := &oauthtest.Options{Clients: []oauthtest.Client{{ID: "resource", Secret: "resource-secret"}}}
	for _, change := range change {
		change(opts)
	}
	issuer, err := oauthtest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		issuer.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	s = &loginServer{}
	s.verifier, err = oauth.NewIntrospection(&oauth.IntrospectionOptions{
		Issuer: issuer.URL, Endpoint: issuer.URL + "/introspect", CacheTime: -1, AllowLoopback: true,
		Client: oauth.Registration{ClientID: "resource", Secret: "resource-secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := streamable.Handler(newServer(), nil)
	t.Cleanup(func() { endpoint.Close() })
	web := httptest.NewUnstartedServer(nil)
	s.resource = "http://" + web.Listener.Addr().String() + "/mcp"
	protected, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource: s.resource, AuthorizationServers: []string{issuer.URL}, Verifier: s.verifier, Scopes: []string{"mcp"},
	})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			s.token.Store(&token)
		}
		protected.ServeHTTP(w, r)
	})
	web.Start()
	t.Cleanup(web.Close)
	return s, home
}

// The token of a login is stored for later runs, and no other user can read
// it.
func TestLogIn(t *testing.T) {
	server, home := newLoginServer(t)
	resource := server.resource
	try := func(p *quickPerson, line ...string) (string, error) {
		var out bytes.Buffer
		err := run(context.Background(), line, strings.NewReader(""), &out, p)
		return out.String(), err
	}
	_, err := try(&quickPerson{}, "tools", resource)
	if want := "status 401): run dovetail -login info " + resource; err == nil || !strings.Contains(err.Error(), want) || statusOf(err) != needsLogin {
		t.Errorf("without -login: status %d, %v", statusOf(err), err)
	}
	if caches, err := os.ReadDir(filepath.Join(home, "XDG_CACHE_HOME")); err != nil || len(caches) > 0 {
		t.Errorf("without a login, there are %v, %v", caches, err)
	}
	for want := int32(1); want >= 0; want-- {
		p := &quickPerson{}
		if out, err := try(p, "-login", "tools", resource); err != nil || !strings.Contains(out, `"greet"`) || p.logins.Load() != want {
			t.Errorf("%d logins, want %d: %v\n%s\n%s", p.logins.Load(), want, err, out, p)
		}
	}
	if out, err := try(&quickPerson{}, "tools", resource); err != nil || !strings.Contains(out, `"greet"`) {
		t.Errorf("a later run without -login: %v\n%s", err, out)
	}
	if _, err := try(&quickPerson{}, "-header", "authorization: Bearer other", "tools", resource); err == nil || strings.Contains(err.Error(), "-login") {
		t.Errorf("with a token of its own: %v", err)
	}
	err = filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		about, err := entry.Info()
		if err != nil || about.Mode().Perm()&0o077 != 0 && strings.Contains(path, "dovetail") {
			t.Errorf("%s is %v, %v", path, about.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, line := range [][]string{{"-login", "tools", "--", "x"}, {"-login", "tools", "ws://127.0.0.1/"}, {"logout", "--", "x"}} {
		if _, err := try(&quickPerson{}, line...); err == nil || !strings.Contains(err.Error(), "a login is for") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// The program deletes the token of a login and revokes it.
func TestLogOut(t *testing.T) {
	server, _ := newLoginServer(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	try := func(line ...string) (out string, logins int32, err error) {
		var p quickPerson
		program := exec.CommandContext(t.Context(), self, line...)
		program.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
		program.Stderr = struct{ io.Writer }{&p} // without the method ReadFrom of the buffer
		text, err := program.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, p.String())
		}
		return string(text), p.logins.Load(), err
	}
	tools := func(logins int32) {
		t.Helper()
		if out, got, err := try("-login", "tools", server.resource); err != nil || !strings.Contains(out, `"greet"`) || got != logins {
			t.Fatalf("%d logins, want %d: %v\n%s", got, logins, err, out)
		}
	}
	tools(1)
	tools(0)
	token := oauth.Secret(*server.token.Load())
	if _, err := server.verifier.Verify(t.Context(), token, server.resource); err != nil {
		t.Errorf("before the logout: %v", err)
	}
	for range 2 { // the second time there is no token
		if out, logins, err := try("logout", server.resource); err != nil || out != "{}\n" || logins != 0 {
			t.Errorf("%q, %d logins, %v", out, logins, err)
		}
	}
	if _, err := server.verifier.Verify(t.Context(), token, server.resource); !errors.As(err, new(*oauth.InvalidTokenError)) {
		t.Errorf("after the logout: %v", err)
	}
	tools(1)
	for want, line := range map[string][]string{
		"exclude each other":   {"-login", "logout", server.resource},
		"expected: logout URL": {"logout", server.resource, "now"},
	} {
		if _, _, err := try(line...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// registered has one client, app with a secret, and no registration.
func registered(o *oauthtest.Options) {
	o.NoRegistration = true
	o.Clients = append(o.Clients, oauthtest.Client{ID: "app", Secret: "app-secret", RedirectURIs: []string{"http://127.0.0.1/callback"}})
}

// configured writes a configuration file with one server.
func configured(t *testing.T, server map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"guarded": server}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcp servers.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Servers of a configuration file use the token of an earlier login. Without one, the message has the command that
// logs in. The registration in the file is used.
func TestLoginOfConfiguredServers(t *testing.T) {
	server, _ := newLoginServer(t, registered)
	t.Setenv("LOGIN_TEST_SECRET", "app-secret")
	file := configured(t, map[string]any{"url": server.resource, "oauth": map[string]any{"clientId": "app", "clientSecret": "${LOGIN_TEST_SECRET}"}})
	try := func(line ...string) (out, said string, logins int32, err error) {
		var stdout bytes.Buffer
		p := &quickPerson{}
		err = run(t.Context(), line, strings.NewReader(""), &stdout, p)
		return stdout.String(), p.String(), p.logins.Load(), err
	}
	want := "run dovetail -login -config '" + file + "' info guarded"
	if _, said, _, err := try("-config", file, "tools"); !strings.Contains(fmt.Sprint(said, err), want) {
		t.Errorf("all servers without a login: %v\n%s", err, said)
	}
	if _, _, _, err := try("-config", file, "tools", "guarded"); err == nil || !strings.Contains(err.Error(), want) || statusOf(err) != needsLogin {
		t.Errorf("one server without a login: status %d, %v", statusOf(err), err)
	}
	serve := func(use func(*client.Session)) string {
		said := &output{}
		program := stdio.Command(os.Args[0], []string{"serve", "-config", file}, &stdio.CommandOptions{
			InheritEnv: true, Env: []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}, Stderr: said,
		})
		session, err := client.Connect(t.Context(), program, nil)
		if err != nil {
			t.Fatal(err)
		}
		use(session)
		session.Close()
		return said.String()
	}
	listed := func(session *client.Session) (names []string) {
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Error(err)
				break
			}
			names = append(names, tool.Name)
		}
		return names
	}
	var names []string
	if said := serve(func(s *client.Session) { names = listed(s) }); len(names) > 0 || !strings.Contains(said, want) {
		t.Errorf("serve without a login has the tools %v, and says\n%s", names, said)
	}
	// The command of the message.
	if out, said, logins, err := try("-login", "-config", file, "info", "guarded"); err != nil || logins != 1 {
		t.Fatalf("the login: %d logins, %v\n%s\n%s", logins, err, out, said)
	}
	for _, line := range [][]string{{"-config", file, "tools"}, {"-config", file, "tools", "guarded"}, {"tools", server.resource}} {
		if out, said, logins, err := try(line...); err != nil || logins != 0 || !strings.Contains(out, "greet") {
			t.Errorf("%v after the login: %d logins, %v\n%s\n%s", line, logins, err, out, said)
		}
	}
	if said := serve(func(s *client.Session) { names = listed(s) }); !slices.Contains(names, "guarded__greet") {
		t.Errorf("serve after the login has the tools %v, and says\n%s", names, said)
	}
	// A file with a token of its own does not use the one of the login.
	other := configured(t, map[string]any{"url": server.resource, "headers": map[string]string{"authorization": "Bearer other"}})
	if _, _, _, err := try("-config", other, "tools", "guarded"); err == nil || strings.Contains(err.Error(), "-login") || statusOf(err) != needsLogin {
		t.Errorf("with a token in the file: status %d, %v", statusOf(err), err)
	}
}

// The flags name a registration, and the port of its redirect URI.
func TestLoginFlags(t *testing.T) {
	server, _ := newLoginServer(t, registered)
	t.Setenv("LOGIN_TEST_SECRET", "app-secret")
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	_, port, _ := net.SplitHostPort(free.Addr().String())
	try := func(line ...string) (said string, err error) {
		p := &quickPerson{}
		err = run(t.Context(), line, strings.NewReader(""), &bytes.Buffer{}, p)
		return p.String(), err
	}
	if _, err := try("-login", "tools", server.resource); err == nil || !strings.Contains(err.Error(), "does not support dynamic registration") {
		t.Errorf("without a registration: %v", err)
	}
	said, err := try("-login", "-client-id", "app", "-client-secret-env", "LOGIN_TEST_SECRET", "-redirect-port", port, "-allow-network", "10.0.0.0/8", "tools", server.resource)
	if err != nil || !strings.Contains(said, "127.0.0.1%3A"+port) || !strings.Contains(said, "client_id=app") {
		t.Errorf("with a registration: %v\n%s", err, said)
	}
	file := configured(t, map[string]any{"url": server.resource})
	for want, line := range map[string][]string{
		"expected a port":                       {"-redirect-port", "70000", "tools", server.resource},
		"expected a network":                    {"-allow-network", "10.0.0.1", "tools", server.resource},
		"LOGIN_TEST_UNSET\" is not set":         {"-login", "-client-id", "app", "-client-secret-env", "LOGIN_TEST_UNSET", "tools", server.resource},
		"-client-secret-env needs -client-id":   {"-login", "-client-secret-env", "LOGIN_TEST_SECRET", "tools", server.resource},
		"are for one server: expected its name": {"-config", file, "-client-id", "app", "tools"},
	} {
		if _, err := try(line...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// A tunnel is a proxy that leads every CONNECT to one server, and records the hosts.
type tunnel struct {
	to    string
	mu    sync.Mutex
	hosts map[string]bool
}

func (p *tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.hosts[r.Method+" "+r.Host] = true
	p.mu.Unlock()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer server.Close()
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, server)
}

// A proxyPerson opens the URL that dovetail prints, through a proxy.
type proxyPerson struct {
	bytes.Buffer
	browser *http.Client
}

func (p *proxyPerson) Write(text []byte) (int, error) {
	if match := regexp.MustCompile(`open (https://\S+)`).FindSubmatch(text); match != nil {
		res, err := p.browser.Get(string(match[1]))
		if err != nil {
			return 0, err
		}
		res.Body.Close()
	}
	return p.Buffer.Write(text)
}

// A login sends its requests for metadata, registration and tokens through the proxy of the environment. The
// names of the servers do not exist.
func TestLoginThroughProxy(t *testing.T) {
	newLoginServer(t) // for its home folder
	issuer, err := oauthtest.New("https://as.example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := streamable.Handler(newServer(), &streamable.Options{Hosts: []string{"mcp.example.com"}})
	t.Cleanup(func() { endpoint.Close() })
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "as.example.com":
			issuer.ServeHTTP(w, r)
		case r.URL.Path == "/.well-known/oauth-protected-resource/mcp":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://as.example.com"]}`)
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
		default:
			endpoint.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	proxy := &tunnel{to: web.Listener.Addr().String(), hosts: make(map[string]bool)}
	proxyServer := httptest.NewServer(proxy)
	t.Cleanup(proxyServer.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	person := &proxyPerson{browser: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Hostname() == "127.0.0.1" {
				return nil, nil
			}
			return url.Parse(proxyServer.URL)
		},
	}}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, "-login", "tools", "https://mcp.example.com/mcp")
	command.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "HTTPS_PROXY="+proxyServer.URL, "NO_PROXY=", "SSL_CERT_FILE="+authority)
	command.Stderr = struct{ io.Writer }{person}
	if out, err := command.Output(); err != nil || !strings.Contains(string(out), `"greet"`) {
		t.Errorf("%v\n%s\n%s", err, out, person)
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	for _, host := range []string{"CONNECT mcp.example.com:443", "CONNECT as.example.com:443"} {
		if !proxy.hosts[host] {
			t.Errorf("the proxy was asked for %v", proxy.hosts)
		}
	}
}

// Without a token of a login, the error says what the server needs: a login only if it offers one, and the headers that
// it has refused.
func TestRefusedCredentialsAreNamed(t *testing.T) {
	guarded, _ := newLoginServer(t, registered)
	keyed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer keyed.Close()
	for _, test := range []struct {
		server      map[string]any
		want, never string
	}{
		{map[string]any{"url": guarded.resource}, "demands a login (status 401): run dovetail -login", "key"},
		{map[string]any{"url": guarded.resource, "headers": map[string]string{"x-api-key": "k"}}, `refuses the credentials in the header "x-api-key" (status 401); check them, or log in: run dovetail -login`, "demands"},
		{map[string]any{"url": keyed.URL + "/mcp"}, "demands a token or key (status 401) and offers no login", "-login"},
		{map[string]any{"url": keyed.URL + "/mcp", "headers": map[string]string{"x-api-key": "k"}}, `refuses the credentials in the header "x-api-key" (status 401); check them`, "-login"},
	} {
		for _, line := range [][]string{{"-config", configured(t, test.server), "tools", "guarded"}, {"-config", configured(t, test.server), "tools"}} {
			var said bytes.Buffer
			err := run(t.Context(), line, strings.NewReader(""), io.Discard, &said)
			if text := fmt.Sprint(err, "\n", said.String()); !strings.Contains(text, test.want) || strings.Contains(text, test.never) {
				t.Errorf("%v: %v\n%s\nwant %s", test.server, err, &said, test.want)
			}
		}
	}
}

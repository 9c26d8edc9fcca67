//go:build soak

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// The variable with the folder of the packages of npm, how many calls each client makes, and how many replicas are killed.
const (
	teamPeers = "DOVETAIL_PEERS"
	teamCalls = 400
	teamKills = 12
)

// startProvider starts oidc-provider, and returns its issuer.
func startProvider(t *testing.T, options map[string]any) string {
	t.Helper()
	provider := exec.Command("node", filepath.Join(os.Getenv(teamPeers), "oauth-provider.mjs"), encoded(t, options))
	provider.Stderr = os.Stderr
	input, err := provider.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := provider.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = provider.Wait() // it may have been killed
	})
	issuer, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(issuer)
}

// A member of the team has a browser, and a name at each provider.
type member struct {
	*http.Client
	names map[string]string // by the host of the provider
}

func newMember(t *testing.T, names map[string]string) *member {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &member{&http.Client{Jar: jar, Timeout: time.Minute}, names}
}

// forms of oidc-provider: a login, and a consent.
var interaction = regexp.MustCompile(`(?s)action="([^"]*/interaction/[^"]*)".*?name="prompt" value="(\w+)"`)

// send sends a request, fills in the forms of the providers, and returns the last page.
func (m *member) send(request *http.Request) (at *url.URL, page string, err error) {
	for range 8 {
		response, err := m.Do(request)
		if err != nil {
			return nil, "", err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, "", err
		}
		at, page = response.Request.URL, string(text)
		form := interaction.FindStringSubmatch(page)
		if form == nil {
			return at, page, nil
		}
		values := url.Values{"prompt": {form[2]}, "login": {m.names[at.Host]}, "password": {"x"}}
		if request, err = http.NewRequestWithContext(request.Context(), http.MethodPost, html.UnescapeString(form[1]), strings.NewReader(values.Encode())); err != nil {
			return nil, "", err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return at, page, fmt.Errorf("the login does not end: %s", page)
}

// visit opens a page.
func (m *member) visit(ctx context.Context, address string) (at *url.URL, page string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	return m.send(request)
}

// A balancer passes each request on to one of the replicas that run.
type balancer struct {
	mu       sync.Mutex
	replicas []*replica
}

// A replica is a process of the program. It has no address while it is away.
type replica struct {
	*program
	kill func()
}

func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if r := b.replicas[rand.IntN(len(b.replicas))]; r.program != nil {
			return r.address
		}
	}
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: b.pick()})
			p.Out.Host = p.In.Host
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, 0),
	}).ServeHTTP(w, r)
}

// notesServer is a server that needs a login at an issuer, and says whose token it has seen.
func notesServer(t *testing.T, issuer string) string {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "notes", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		return oauth.FromContext(ctx).Subject, nil
	})
	endpoint := streamable.Handler(s, nil)
	t.Cleanup(func() { _ = endpoint.Close() })
	var protected http.Handler
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { protected.ServeHTTP(w, r) }))
	t.Cleanup(site.Close)
	var err error
	protected, err = oauth.Protect(endpoint, &oauth.ProtectOptions{Resource: site.URL + "/mcp", AuthorizationServers: []string{issuer}, Verifier: tokenVerifier(t, issuer), Scopes: []string{"notes"}})
	if err != nil {
		t.Fatal(err)
	}
	return site.URL + "/mcp"
}

// TestTeam: three replicas serve two servers from npm, one of ours and one at which each person has an account. People of two roles log in
// at an OpenID provider, in their clients and in a browser, and connect their accounts at another one. They call in both eras while
// replicas are killed. Each call uses the account of its caller and what the role allows, and each call that changes something is approved
// by another person, and made once.
func TestTeam(t *testing.T) {
	roles := map[string]any{"ann": []string{"ops"}, "bob": []string{"ops"}, "cleo": []string{"reader"}}
	balance := &balancer{replicas: []*replica{{}, {}, {}}}
	site := httptest.NewServer(balance)
	t.Cleanup(site.Close)
	staff := startProvider(t, map[string]any{"people": roles, "registration": true, "format": "jwt", "clients": []any{map[string]any{
		"client_id": "gateway", "client_secret": "gateway-secret", "redirect_uris": []string{site.URL + callbackPath},
	}}})
	accounts := startProvider(t, map[string]any{"host": "127.0.0.2", "clients": []any{}, "registration": true, "format": "jwt"})
	hostOf := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	members := make(map[string]*member)
	for name := range roles {
		members[name] = newMember(t, map[string]string{hostOf(staff): name, hostOf(accounts): accountOf(name)})
	}

	folder, modules := t.TempDir(), filepath.Join(os.Getenv(teamPeers), "node_modules", ".bin")
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := write("read.txt", "hello")
	config := write("mcp.json", encoded(t, map[string]any{"mcpServers": map[string]any{
		"files":      map[string]any{"command": "node", "args": []string{filepath.Join(modules, "mcp-server-filesystem"), folder}},
		"everything": map[string]any{"command": "node", "args": []string{filepath.Join(modules, "mcp-server-everything")}},
		"shelf":      shelfConfig(),
		"notes":      map[string]any{"url": notesServer(t, accounts), "dovetail": map[string]any{"auth": "user"}},
	}}))
	reading := `{"effect": "allow", "names": ["whoami", "echo", "read_text_file"]}`
	everyone := write("everyone.json", `{"rules": [`+reading+`]}`)
	ops := write("ops.json", `{"rules": [`+reading+`, {"effect": "ask", "names": ["put"]}]}`)
	store := newStore(t)
	t.Setenv("GATEWAY_SECRET", "gateway-secret")
	launch := func(r *replica, number int) {
		p := &program{folder: t.TempDir()}
		kill := p.launch(t, []string{
			"serve", "-config", config, "-http", "127.0.0.1:0", "-store", store, "-url", site.URL, "-issuer", staff, "-client-id", "gateway",
			"-client-secret-env", "GATEWAY_SECRET", "-operators", "ops", "-policy", everyone, "-role-policy", "ops=" + ops,
			"-journal", filepath.Join(folder, fmt.Sprint("journal", number)),
		})
		waittest.Until(t, "a replica that is ready", func() bool {
			status, _, err := p.do(t.Context(), "", http.MethodGet, "/readyz", "")
			return err == nil && status == http.StatusOK
		})
		balance.mu.Lock()
		defer balance.mu.Unlock()
		r.program, r.kill = p, kill
	}
	started := 0
	for _, r := range balance.replicas {
		launch(r, started)
		started++
	}

	for name, m := range members { // a browser is logged in, and the account is connected
		if at, page, err := m.visit(t.Context(), site.URL+"/accounts/"); err != nil || !strings.Contains(page, "Accounts of "+name) {
			t.Fatalf("the login of %s ends at %s: %v %s", name, at, err, page)
		}
		form, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site.URL+"/accounts/connect", strings.NewReader("server=notes"))
		if err != nil {
			t.Fatal(err)
		}
		form.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {site.URL}, "Sec-Fetch-Site": {"same-origin"}}
		if at, page, err := m.send(form); err != nil || !strings.Contains(page, "is connected") {
			t.Fatalf("the account of %s is not connected at %s: %v %s", name, at, err, page)
		}
	}
	for _, name := range []string{"ann", "bob"} { // each approves what the other calls, and is refused for the own calls
		approver, err := channel.Dial(t.Context(), site.URL+"/approval", func(ctx context.Context, prompt *approval.Prompt) {
			_ = prompt.Accept(ctx) // the request may have been decided
		}, &channel.ClientOptions{HTTPClient: members[name].Client, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = approver.Close() })
	}
	if _, page, err := members["cleo"].visit(t.Context(), site.URL+"/console/"); err != nil || !strings.Contains(page, "none of the roles") {
		t.Errorf("cleo sees the console: %v %s", err, page)
	}

	var made, failed, put, denied atomic.Int64
	due := make(chan struct{}, teamKills+1) // kills
	var running sync.WaitGroup
	for name := range roles {
		for _, era := range []client.Era{client.Legacy, client.Modern} {
			var logins sync.WaitGroup
			authorizer, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: true, Scopes: []string{"notes"}, Flow: &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
				logins.Go(func() { _, _, _ = members[name].visit(t.Context(), to) }) // the client learns whether it has worked
				return nil
			}}})
			if err != nil {
				t.Fatal(err)
			}
			session, err := client.Connect(t.Context(), streamable.Dial(site.URL+"/mcp", &streamable.DialOptions{Authorizer: authorizer}), &client.Options{Era: era, CallTimeout: time.Minute})
			if err != nil {
				t.Fatalf("%s, %v: %v", name, era, err)
			}
			t.Cleanup(func() { session.Close(); logins.Wait() })
			running.Go(func() {
				for i := range teamCalls {
					if made.Add(1)%(6*teamCalls/(teamKills+1)) == 0 {
						due <- struct{}{}
					}
					tool, arguments, want := "notes__whoami", map[string]any{}, accountOf(name)
					switch text := fmt.Sprintf("%s %v %d", name, era, i); i % 4 {
					case 1:
						tool, arguments, want = "everything__echo", map[string]any{"message": text}, text
					case 2:
						tool, arguments, want = "files__read_text_file", map[string]any{"path": read}, "hello"
					case 3:
						tool, arguments, want = "shelf__put", map[string]any{"path": filepath.Join(folder, "put "+text), "text": "x"}, "put"
					}
					result, err := session.CallTool(t.Context(), tool, arguments, nil)
					switch {
					case tool == "shelf__put" && name == "cleo":
						if err == nil && !result.IsError {
							t.Errorf("cleo has put: %s", result.Text())
						}
						denied.Add(1)
					case err != nil || result.IsError:
						failed.Add(1)
					case !strings.Contains(result.Text(), want):
						t.Errorf("%s, %v: %s returns %s, want %s", name, era, tool, result.Text(), want)
					case tool == "shelf__put":
						if lines, err := os.ReadFile(arguments["path"].(string)); err != nil || string(lines) != "x\n" {
							t.Errorf("a call that was made is lost or doubled: %q %v", lines, err)
						}
						put.Add(1)
					}
				}
			})
		}
	}
	finished := make(chan struct{})
	go func() {
		running.Wait()
		close(finished)
	}()
	kills := 0
	for going := true; going; {
		select {
		case <-finished:
			going = false
		case <-due:
			r := balance.replicas[kills%3]
			balance.mu.Lock()
			kill := r.kill
			r.program = nil
			balance.mu.Unlock()
			kill()
			launch(r, started)
			started, kills = started+1, kills+1
		}
	}

	doubled, err := filepath.Glob(filepath.Join(folder, "put *"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range doubled {
		if lines, err := os.ReadFile(path); err != nil || string(lines) != "x\n" {
			t.Errorf("%s has %q %v", path, lines, err)
		}
		if strings.Contains(path, "cleo") {
			t.Errorf("cleo has put %s", path)
		}
	}
	approved := 0
	for n := range started {
		journal, err := os.ReadFile(filepath.Join(folder, fmt.Sprint("journal", n)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(journal)) {
			var entry approval.Entry
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				continue // of a replica that was killed
			}
			if entry.Event == "approved" {
				approved++
				if entry.By == entry.Caller || entry.By == "" {
					t.Errorf("%s approves a call of %s", entry.By, entry.Caller)
				}
			}
		}
	}
	t.Logf("%d calls, %d failed while a replica was killed, %d put, %d denied, %d approved by another person, %d kills", made.Load(), failed.Load(), put.Load(), denied.Load(), approved, kills)
	if failed.Load() > made.Load()/5 || put.Load() == 0 || approved == 0 || kills < teamKills {
		t.Error("too few calls have succeeded, or too few replicas were killed")
	}
}

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
)

// put asks to have something put into a file, by each frontend, and returns the errors.
func (p *program) put(t *testing.T) (errs []error) {
	t.Helper()
	for _, frontend := range p.frontends(t) {
		_, err := frontend.call(t.Context(), "put", `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
		errs = append(errs, err)
	}
	return errs
}

// refused checks that all calls were, in these words, and that nothing was done.
func (p *program) refused(t *testing.T, want string) {
	t.Helper()
	for i, err := range p.put(t) {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("frontend %d: error %v, want %q", i, err, want)
		}
	}
	if got := p.lines(t, "file"); len(got) > 0 {
		t.Errorf("there are the lines %q", got)
	}
}

func TestNobodyIsAsked(t *testing.T) {
	start(t, "-approve", "none").refused(t, "no approver is available")
}

func TestNobodyIsAtTheChannel(t *testing.T) {
	start(t, "-approve", "channel").refused(t, "Approval channel not connected")
}

func TestNobodyDecidesInTime(t *testing.T) { start(t, "-expiry", "20ms").refused(t, "expired") }

func TestApproverLeavesTheChannel(t *testing.T) {
	p := start(t, "-approve", "channel")
	asked := make(chan struct{}, 1)
	approver, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", func(context.Context, *approval.Prompt) {
		asked <- struct{}{}
	}, &channel.ClientOptions{Token: p.approvals, Once: true})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-asked
		approver.Close()
	}()
	_, err = p.frontends(t)[1].call(t.Context(), "put", `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
	if err == nil || !strings.Contains(err.Error(), "Approval channel disconnected") {
		t.Errorf("the caller is told %v", err)
	}
}

// TestPageIsOpenedLater checks that calls wait until the page is opened.
func TestPageIsOpenedLater(t *testing.T) {
	p := start(t)
	done := make(chan []error)
	frontends := p.frontends(t)
	for _, frontend := range frontends {
		go func() {
			_, err := frontend.call(t.Context(), "put", `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
			done <- []error{err}
		}()
	}
	log := p.said.follow(t)
	for waiting := 0; waiting < len(frontends); {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "approval asked") {
			waiting++
		}
	}
	p.decide(t, accept)
	for range frontends {
		if err := <-done; err[0] != nil {
			t.Error(err[0])
		}
	}
	if got := p.lines(t, "file"); len(got) != len(frontends) {
		t.Errorf("there are the lines %q", got)
	}
}

// TestCallerIsAsked: only over MCP a caller can be.
func TestCallerIsAsked(t *testing.T) {
	p := start(t, "-approve", "caller")
	p.refused(t, "the caller cannot be asked")
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		var questions []string
		session := p.connect(t, &client.Options{Era: era, Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			questions = append(questions, params.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"decision":"approve"}`)}, nil
		}})
		before := len(p.lines(t, "file"))
		if _, err := session.CallTool(t.Context(), "shelf__put", line{p.path("file"), "x"}, nil); err != nil {
			t.Error(err)
		}
		if len(questions) != 1 || !strings.Contains(questions[0], "put on shelf") || !strings.Contains(questions[0], p.path("file")) {
			t.Errorf("the caller is asked %q", questions)
		}
		if got := len(p.lines(t, "file")) - before; got != 1 {
			t.Errorf("it is done %d times", got)
		}
	}
}

// routes are all that need a caller's token.
var routes = []struct{ method, path, body string }{
	{http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{http.MethodPost, "/run", `{"server_name":"shelf","server_params":{},"tool_name":"look","tool_args":{}}`},
	{http.MethodPost, "/approve", `{"server_name":"shelf","server_params":{},"tool_name":"look","tool_args":{}}`},
	{http.MethodPut, "/reset", ""},
	{http.MethodGet, "/status", ""},
	{http.MethodGet, "/", ""},
	{http.MethodGet, "/nothing", ""},
	{http.MethodGet, "/health", ""},
	{http.MethodGet, "/states", ""},
	{http.MethodGet, "/metrics", ""},
	{http.MethodPost, "/api/v1/mcp/proxy/shelf/tools/look", `{"arguments":{}}`},
	{http.MethodGet, "/api/v1/mcp/proxy/servers", ""},
	{http.MethodGet, "/api/v1/mcp/proxy/health", ""},
	{http.MethodGet, "/api/v1/rest/tools", ""},
	{http.MethodPost, "/api/v1/rest/tools/call", `{"name":"shelf__look","arguments":{}}`},
	{http.MethodPost, "/api/v1/rest/tools/shelf__look", `{}`},
	{http.MethodGet, "/api/v1/rest/openapi.json", ""},
}

func (p *program) status(t *testing.T, token, method, path, body string) int {
	t.Helper()
	status, _, err := p.do(t.Context(), token, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// TestTokens checks that calls need the token of callers, and that it does not allow approving.
func TestTokens(t *testing.T) {
	p := start(t)
	if p.token == "" || p.approvals == "" || p.token == p.approvals {
		t.Fatalf("the tokens are %q and %q", p.token, p.approvals)
	}
	for _, route := range routes {
		for _, token := range []string{"", "x", p.approvals, p.token + "x"} {
			if got := p.status(t, token, route.method, route.path, route.body); got != http.StatusUnauthorized {
				t.Errorf("%s %s with the token %q: status %d", route.method, route.path, token, got)
			}
		}
		if got := p.status(t, p.token, route.method, route.path, route.body); got == http.StatusUnauthorized || got == http.StatusForbidden {
			t.Errorf("%s %s with the token: status %d", route.method, route.path, got)
		}
	}
	for _, token := range []string{"", "x", p.token, p.approvals + "x"} {
		if _, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", nil, &channel.ClientOptions{Token: token}); err == nil {
			t.Errorf("who shows %q can approve", token)
		}
	}
	for path, want := range map[string]int{"/approvals/": http.StatusOK, "/approvals": http.StatusOK, "/approvals/page.js": http.StatusOK, "/approvals/nothing": http.StatusNotFound} {
		if got := p.status(t, "", http.MethodGet, path, ""); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	p.busy(t)
	if err := p.end(); err != nil {
		t.Error(err)
	}
	for token, want := range map[string]int{p.token: 1, p.approvals: 2} { // approvers are operators of the console
		if got := strings.Count(p.said.String(), token); got != want {
			t.Errorf("the log has a token %d times, want %d", got, want)
		}
	}
}

// busy has the approver and callers come and go, so that there is something to log.
func (p *program) busy(t *testing.T) {
	t.Helper()
	asked := p.decide(t, accept)
	for _, err := range p.put(t) {
		if err != nil {
			t.Error(err)
		}
		isAsked(t, asked)
	}
}

func TestTokenOfOnesOwn(t *testing.T) {
	const token = "a-token-that-somebody-has-chosen"
	p := start(t, "-token", token)
	if p.token != "" || strings.Contains(p.said.String(), token) {
		t.Errorf("the token is printed:\n%s", p.said)
	}
	if got := p.status(t, token, http.MethodGet, "/status", ""); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}

// TestProbes: they have no details, need no token and answer at any host.
func TestProbes(t *testing.T) {
	p := start(t)
	probe := func(path, host string) (status int, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	waittest.Until(t, "the start of the servers", func() bool {
		status, _ := probe("/readyz", "")
		return status == http.StatusOK
	})
	for _, path := range []string{"/livez", "/readyz"} {
		for _, host := range []string{"", "10.1.2.3:8900", "gateway.example"} {
			if status, body := probe(path, host); status != http.StatusOK || body != "ok\n" {
				t.Errorf("%s at %q: %d %s", path, host, status, body)
			}
		}
	}
	if _, states, err := p.do(t.Context(), p.token, http.MethodGet, "/states", ""); err != nil || !strings.Contains(string(states), `"alias":"shelf"`) {
		t.Errorf("the states: %s, error %v", states, err)
	}
}

// TestOpen: callers need no token, approvers do, and pages of others get nowhere.
func TestOpen(t *testing.T) {
	for _, flags := range [][]string{{"-approve", "page"}, {"-approve", "channel"}, {"-approve", "channel", "-insecure-no-approval-token"}} {
		p := start(t, append([]string{"-open"}, flags...)...)
		if p.token != "" {
			t.Error("there is a token for callers")
		}
		for _, route := range routes {
			if got := p.status(t, "", route.method, route.path, route.body); got == http.StatusUnauthorized || got == http.StatusForbidden {
				t.Errorf("%s %s: status %d", route.method, route.path, got)
			}
			for _, header := range []http.Header{{"Host": {"evil.example"}}, {"Origin": {"https://evil.example"}}} {
				request, err := http.NewRequestWithContext(t.Context(), route.method, "http://"+p.address+route.path, strings.NewReader(route.body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				request.Host = header.Get("Host")
				request.Header.Set("Origin", header.Get("Origin"))
				if header.Get("Origin") == "" {
					request.Header.Del("Origin")
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != http.StatusForbidden {
					t.Errorf("%s %s with %v: status %d", route.method, route.path, header, response.StatusCode)
				}
			}
		}
		approver, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", accepting, nil)
		if err == nil {
			approver.Close()
		}
		if open := err == nil; open != (len(flags) == 3) {
			t.Errorf("%q: who shows no token can approve: %t", flags, open)
		}
	}
}

func accepting(ctx context.Context, prompt *approval.Prompt) { _ = prompt.Accept(ctx) }

// TestLaunch checks that a caller cannot name a program to start without -launch. With it,
// the approver sees it, whatever the policy says of names.
func TestLaunch(t *testing.T) {
	lax := filepath.Join(t.TempDir(), "lax.json")
	if err := os.WriteFile(lax, []byte(`{"rules": [{"effect": "allow", "names": ["put"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"-launch"}, {"-launch", "-policy", lax}} {
		p := start(t, flags...)
		asked := p.decide(t, accept)
		body := encoded(t, map[string]any{
			"server_name": "mine", "tool_name": "put", "tool_args": line{p.path("file"), "x"},
			"server_params": shelfConfig(),
		})
		_, answer, err := p.do(t.Context(), p.token, http.MethodPost, "/run", body)
		if err != nil {
			t.Fatal(err)
		}
		if flags == nil {
			isQuiet(t, asked)
			if !strings.HasPrefix(string(answer), `{"error":`) || len(p.lines(t, "file")) > 0 {
				t.Errorf("without -launch: %s", answer)
			}
			continue
		}
		if string(answer) != `{"result":"put"}` || len(p.lines(t, "file")) != 1 {
			t.Fatalf("with -launch: %s", answer)
		}
		if r := isAsked(t, asked); r.Server != "launched:mine" || !strings.HasPrefix(r.Launch, os.Args[0]+" (env ") {
			t.Errorf("asked about %+v", r.Target)
		}
	}
}

// TestLaunchWithoutApproval checks that a flag lets callers with the token launch programs without approval, unless the
// policy asks or denies.
func TestLaunchWithoutApproval(t *testing.T) {
	folder := t.TempDir()
	policies := map[string]string{
		"": `{"result":"put"}`, `{}`: `{"result":"put"}`,
		`{"rules":[{"effect":"ask","names":["put"]}]}`:           "rejected",
		`{"deny":["*put"]}`:                                      "forbidden",
		`{"rules":[{"effect":"deny","servers":["launched:*"]}]}`: "forbidden",
	}
	for text, want := range policies {
		file := ""
		if text != "" {
			file = filepath.Join(folder, "policy.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p := start(t, "-launch", "-insecure-launch-without-approval", "-policy", file)
		if p.approvals != "" {
			p.decide(t, reject)
		}
		body := encoded(t, map[string]any{
			"server_name": "mine", "tool_name": "put", "tool_args": line{p.path("file"), "x"},
			"server_params": shelfConfig(),
		})
		status, answer, err := p.do(t.Context(), p.token, http.MethodPost, "/run", body)
		if err != nil || status != http.StatusOK || !strings.Contains(string(answer), want) {
			t.Errorf("with the policy %q: %d %s, %v, want %s", text, status, answer, err, want)
		}
		if ran, want := len(p.lines(t, "file")), strings.Count(want, "result"); ran != want {
			t.Errorf("with the policy %q the program ran %d times, want %d", text, ran, want)
		}
		if status, _, err := p.do(t.Context(), "", http.MethodPost, "/run", body); err != nil || status != http.StatusUnauthorized {
			t.Errorf("without the token: %d, %v", status, err)
		}
		if !strings.Contains(p.said.String(), "any program") {
			t.Error("the program does not say what callers may do")
		}
	}
}

func TestAllIsAllowed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "-policy", empty)
	for _, err := range p.put(t) {
		if err != nil {
			t.Error(err)
		}
	}
}

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// routes are all that take a token.
var routes = []string{
	"POST /mcp", "GET /mcp", "DELETE /mcp", "POST /credential", "POST /tool-server-url", "POST /custom-mcp", "PUT /custom-mcp",
	"DELETE /custom-mcp/x", "POST /sidecars/x", "POST /register-codex", "POST /mcp/credential", "POST /mcp/tool-server-url",
	"POST /mcp/custom-mcp", "DELETE /mcp/custom-mcp/x", "POST /mcp/register-codex", "GET /mcp/tools", "POST /mcp/tools/call", "POST /mcp/tools/read_file", "GET /nothing",
}

// Nobody does anything without the token, by a strange name, or from a strange page.
func TestAccess(t *testing.T) {
	s := served(t, testOptions(t))
	if len(s.token) < 16 || len(s.control) < 16 || s.token == s.control {
		t.Errorf("the tokens are %q and %q", s.token, s.control)
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		for _, header := range [][]string{
			{"Authorization", ""}, {"Authorization", "Bearer wrong"}, {"Authorization", s.token},
			{"Host", "evil.example"}, {"Origin", "https://evil.example"},
			{"Authorization", "Bearer " + map[bool]string{true: s.control, false: s.token}[forAgents(path)]}, // the other one
		} {
			status, answer := s.send(method, path, `{"user_api_key":"k","session_id":"s"}`, header...)
			if want := http.StatusUnauthorized; status != want && (header[0] == "Authorization" || status != http.StatusForbidden) {
				t.Errorf("%s with %q: %d %s", route, header, status, answer)
			}
		}
	}
	if status, _ := s.send("POST", "/credential", "", "Content-Type", "text/plain"); status != http.StatusBadRequest {
		t.Errorf("without a body: %d", status)
	}
	if status, _ := s.send("POST", "/credential", "user_api_key=x", "Content-Type", "text/plain"); status != http.StatusUnsupportedMediaType {
		t.Errorf("a form: %d", status)
	}
	if status, answer := s.send("GET", "/health", "", "Authorization", ""); status != http.StatusOK || answer != `{"status":"ok"}` {
		t.Errorf("health: %d %s", status, answer)
	}
}

// A page of the browser sets nothing up, whatever it shows and wherever it is from.
func TestPagesControlNothing(t *testing.T) {
	s := served(t, testOptions(t))
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if forAgents(path) || path == "/nothing" {
			continue
		}
		for _, origin := range []string{s.url, "http://localhost:3000", "null", ""} {
			if status, answer := s.send(method, path, `{"user_api_key":"k","session_id":"s"}`, "Origin", origin); status != http.StatusForbidden {
				t.Errorf("%s from %q: %d %s", route, origin, status, answer)
			}
		}
	}
}

func TestOpenAndTokens(t *testing.T) {
	const credential = `{"user_api_key":"k","session_id":"s"}`
	o := testOptions(t)
	o.open = true
	s := served(t, o)
	u := connected(t, streamable.Dial(s.url+"/mcp", nil), client.Options{})
	if got := u.call("run_command", `{"command":"echo $((1+1))"}`); !strings.Contains(got, `"stdout":"2\n"`) {
		t.Error(got)
	}
	if status, answer := s.send("POST", "/credential", credential, "Authorization", ""); status != http.StatusUnauthorized {
		t.Errorf("open, without the control token: %d %s", status, answer)
	}
	if status, answer := s.send("POST", "/credential", credential); status != http.StatusOK {
		t.Errorf("open, with the control token: %d %s", status, answer)
	}
	o = testOptions(t)
	o.token, o.controlToken = "sesame-sesame-sesame", "open-open-open-open"
	s = served(t, o)
	u = connected(t, streamable.Dial(s.url+"/mcp", &streamable.DialOptions{Header: bearer(o.token)}), client.Options{})
	if got := u.call("run_command", `{"command":"echo $((1+1))"}`); !strings.Contains(got, `"stdout":"2\n"`) {
		t.Error(got)
	}
	if status, answer := s.send("POST", "/credential", credential); status != http.StatusOK {
		t.Errorf("with the control token: %d %s", status, answer)
	}
	o.controlToken = o.token
	o.address = "127.0.0.1:0"
	if err := run(t.Context(), guard, o, io.Discard); err == nil || !strings.Contains(err.Error(), "-control-token") {
		t.Errorf("one token for both: %v", err)
	}
}

// toolServer is an external tool server.
func toolServer(t *testing.T, status int) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tools/health" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(web.Close)
	return web.URL + "/tools"
}

// No tools are registered before a credential and a tool server are set, and then all in one step.
func TestDeferred(t *testing.T) {
	o := testOptions(t)
	o.deferred = true
	s := served(t, o)
	u := newUser(t, s.sandbox)
	if n := len(u.tools()); n != 0 {
		t.Errorf("%d tools at first", n)
	}
	good := toolServer(t, http.StatusOK)
	send := func(path, body string, status int, want string) {
		t.Helper()
		got, answer := s.send("POST", path, body)
		if got != status || !strings.Contains(answer, want) {
			t.Errorf("%s %s: %d %s, want %d %s", path, body, got, answer, status, want)
		}
	}
	send("/tool-server-url", `{"tool_server_url":"`+good+`"}`, 400, `{"error":"Credential must be set before setting tool server url"}`)
	send("/credential", ``, 400, `{"error":"Invalid request"}`)
	send("/credential", `{}`, 400, `{"error":"Invalid request"}`)
	send("/credential", `{"user_api_key":`, 400, `{"error":"Invalid request"}`)
	send("/credential", `{"user_api_key":"k"}`, 400, `{"error":"user_api_key or session_id is not set in the credential file"}`)
	send("/credential", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, 413, "at most")
	send("/credential", `{"user_api_key":"secret","session_id":"s"}`, 200, `{"status":"success"}`)
	send("/tool-server-url", `{"tool_server_url":"http://example.com/"}`, 400, "not one of those that are allowed")
	for _, wrong := range []string{"file:///etc", "http://:8080", "http://", "http://a:b@127.0.0.1/", "http://127.0.0.1/?x"} {
		send("/tool-server-url", `{"tool_server_url":"`+wrong+`"}`, 400, "expected a URL")
	}
	send("/tool-server-url", `{"tool_server_url":"http://127.0.0.1:1"}`, 500, `{"status":"error","message":"Can't connect to tool server: `)
	send("/tool-server-url", `{"tool_server_url":"`+toolServer(t, http.StatusTeapot)+`"}`, 500, "418")
	if n := len(u.tools()); n != 0 || len(u.waitChanges(0)) != 0 {
		t.Errorf("%d tools before", n)
	}
	send("/mcp/tool-server-url", `{"tool_server_url":"`+good+`/"}`, 200, `{"status":"success"}`)
	if told := u.waitChanges(1); len(told) != 1 || told[0].Kind != mcp.KindTool {
		t.Errorf("told %v", told)
	}
	if n := len(u.tools()); n < 30 {
		t.Errorf("%d tools", n)
	}
	if got := u.call("run_command", `{"command":"echo $TOOL_SERVER_URL; env"}`); !strings.Contains(got, good+`\n`) || strings.Contains(got, "secret") {
		t.Error(got)
	}
	u.waitChanges(0)
	send("/tool-server-url", `{"tool_server_url":"`+good+`"}`, 200, `{"status":"success"}`)
	if told := u.waitChanges(0); len(told) > 1 {
		t.Errorf("again: told %v", told)
	}
}

// custom is the configuration of servers that greet.
func customServers(t *testing.T, greetings ...string) string {
	t.Helper()
	servers := make(map[string]any)
	for i := 0; i < len(greetings); i += 2 {
		servers[greetings[i]] = map[string]any{"command": os.Args[0],
			"env": map[string]string{asServer: greetings[i+1], asSleep: sleepTime(), "GORACE": "atexit_sleep_ms=0", "TOKEN": "${SECRET}"}}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Servers are added, replaced and removed while the sandbox serves. Clients get one
// notification for each change.
func TestCustomServers(t *testing.T) {
	t.Setenv("SECRET", "hunter2")
	s := served(t, testOptions(t))
	u := newUser(t, s.sandbox)
	before := len(u.tools())
	step := func(method, path, body string, status int, want string, told int) {
		t.Helper()
		u.waitChanges(0)
		got, answer := s.send(method, path, body)
		if got != status || !strings.Contains(answer, want) {
			t.Errorf("%s %s: %d %s, want %d %s", method, path, got, answer, status, want)
		}
		if changes := u.waitChanges(told); len(changes) != told {
			t.Errorf("%s %s %.60s: told %v", method, path, body, changes)
		}
	}
	says := func(tool, want string) {
		t.Helper()
		if got := u.call(tool, `{}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
	}
	step("POST", "/custom-mcp", customServers(t, "one", "hello", "two-three", "hi"), 200, `"mcp_two-three_greet"`, 1)
	says("mcp_one_greet", "hello ${SECRET}") // variables of a request are not expanded
	says("mcp_two-three_greet", "hi")
	if n := len(u.tools()); n != before+4 {
		t.Errorf("%d tools, %d before", n, before)
	}
	step("POST", "/custom-mcp", customServers(t, "one", "good day"), 200, `{"status":"success","tools":["mcp_one_greet","mcp_one_linger"]}`, 0) // the list is unchanged
	says("mcp_one_greet", "good day")
	says("mcp_two-three_greet", "hi")
	says("mcp_one_linger", "")
	step("POST", "/custom-mcp", `{"mcpServers":{"one":{"command":"no-such-program"}}}`, 502, "no-such-program", 0)
	says("mcp_one_greet", "good day")
	for _, wrong := range []string{"", "{}", "null", "[", `{"mcpServers":{}}`, `{"mcpServers":{"a__b":{"command":"x"}}}`, `{"mcpServers":{"a":{"url":"ftp://x"}}}`,
		`{"mcpServers":{"a":{"command":"x","dovetail":{"inheritEnv":true}}}}`} {
		step("POST", "/custom-mcp", wrong, 400, `"error"`, 0)
	}
	step("DELETE", "/custom-mcp/one", "", 200, `{"status":"success"}`, 1)
	step("DELETE", "/custom-mcp/one", "", 404, "no such server", 0)
	says("mcp_one_greet", "failure: ")
	step("PUT", "/mcp/custom-mcp", customServers(t, "four", "salut"), 200, "mcp_four_greet", 1)
	says("mcp_two-three_greet", "failure: ")
	says("mcp_four_greet", "salut")
	nothingSleeps(t)
}

// Those of a file are there from the start; variables in it have their values. They can be
// removed before anybody has called.
func TestCustomServersOfAFile(t *testing.T) {
	t.Setenv("SECRET", "hunter2")
	o := testOptions(t)
	o.customMCP = filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(o.customMCP, []byte(customServers(t, "one", "hello")), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, started(t, o))
	if got := u.call("mcp_one_greet", `{}`); got != "hello hunter2" {
		t.Error(got)
	}
	s := served(t, o)
	if status, answer := s.send("DELETE", "/custom-mcp/one", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
	if got := newUser(t, s.sandbox).call("mcp_one_greet", `{}`); !strings.HasPrefix(got, "failure: ") {
		t.Error(got)
	}
}

func TestSidecars(t *testing.T) {
	foreign := httptest.NewServer(http.NotFoundHandler())
	defer foreign.Close()
	free := httptest.NewServer(http.NotFoundHandler())
	free.Close()
	t.Setenv(asSidecar, free.Listener.Addr().String())
	o := testOptions(t)
	o.pass += "," + asSidecar
	for _, text := range []string{"codex=" + free.URL + " " + os.Args[0], "foreign=" + foreign.URL + " sleep 61", "missing=http://127.0.0.1:1 no-such-program", "ends=http://127.0.0.1:1 sh -c false"} {
		if err := o.addSidecar(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "x", "x=http://127.0.0.1:1", "=http://127.0.0.1:1 y"} {
		if err := o.addSidecar(text); err == nil {
			t.Errorf("%q is a sidecar", text)
		}
	}
	s := served(t, o)
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/register-codex", 200, fmt.Sprintf(`{"status":"success","url":%q}`, free.URL)},
		{"/sidecars/codex", 200, fmt.Sprintf(`{"status":"already_running","url":%q}`, free.URL)},
		{"/sidecars/foreign", 500, "another server listens"},
		{"/sidecars/missing", 500, `"status":"error"`},
		{"/sidecars/ends", 500, "exit status 1"},
		{"/sidecars/nothing", 404, `"status":"error"`},
	} {
		if status, answer := s.send("POST", c.path, ""); status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
	}
}

// Rules match the annotations of tools, and the person behind the caller decides.
func TestPolicy(t *testing.T) {
	o := testOptions(t)
	o.policy = filepath.Join(t.TempDir(), "policy.json")
	rules := `{"deny": ["background_*", "run_background"], "rules": [
		{"effect": "allow", "annotations": {"readOnlyHint": true}},
		{"effect": "ask", "unless": [{"annotations": {"readOnlyHint": true}}]}
	]}`
	if err := os.WriteFile(o.policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	o.customMCP = filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(o.customMCP, []byte(customServers(t, "one", "hello")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET", "")
	s := started(t, o)
	var asked atomic.Int64
	person := func(answer mcp.ElicitAction) client.Options {
		return client.Options{Elicit: elicit(func(p *mcp.ElicitParams) *mcp.ElicitResult {
			asked.Add(1)
			if !strings.Contains(p.Message, "write_file") && !strings.Contains(p.Message, "greet on one") {
				t.Errorf("asked %q", p.Message)
			}
			return &mcp.ElicitResult{Action: answer, Content: json.RawMessage(`{"decision":"approve"}`)}
		})}
	}
	u := connectedTo(t, s, person(mcp.ElicitDecline))
	tools := u.tools()
	if tools["read_file"] == nil || tools["write_file"] == nil || tools["run_background"] != nil || tools["background_list"] != nil {
		t.Errorf("%d tools", len(tools))
	}
	if got := u.call("run_background", `{"command":"true"}`); !strings.HasPrefix(got, "error: The policy") {
		t.Error(got)
	}
	if got := u.call("write_file", `{"path":"x","content":"x"}`); !strings.Contains(got, "rejected") {
		t.Error(got)
	}
	if got := u.call("list_directory", `{}`); !strings.Contains(got, "empty") || asked.Load() != 1 {
		t.Errorf("%s, asked %d times", got, asked.Load())
	}
	// Whoever has been added may say that a tool only reads.
	if got := u.call("mcp_one_greet", `{}`); !strings.Contains(got, "rejected") || asked.Load() != 2 {
		t.Errorf("%s, asked %d times", got, asked.Load())
	}
	u = connectedTo(t, s, person(mcp.ElicitAccept))
	if got := u.call("write_file", `{"path":"x","content":"x"}`); !strings.Contains(got, "Successfully") || asked.Load() != 3 {
		t.Errorf("%s, asked %d times", got, asked.Load())
	}
}

// The names of added servers do not affect rules for the tools of the sandbox; the rules still apply to the sandbox
// only, and annotations of an added server are not trusted.
func TestAddedServerChangesNoRules(t *testing.T) {
	t.Setenv("SECRET", "")
	o := testOptions(t)
	o.policy = filepath.Join(t.TempDir(), "policy.json")
	rules := `{"rules": [
		{"effect": "deny", "servers": ["sandbox"], "names": ["run_command"]},
		{"effect": "allow", "annotations": {"readOnlyHint": true}}
	]}`
	if err := os.WriteFile(o.policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := served(t, o)
	u := newUser(t, s.sandbox)
	if status, answer := s.send("POST", "/custom-mcp", customServers(t, "run", "command")); status != http.StatusOK {
		t.Fatal(answer)
	}
	for exposed, want := range map[string]mcp.Origin{
		"run_command":     {Server: own, Name: "run_command", Trusted: true},
		"mcp_run_command": {Server: "run", Name: "command"},
	} {
		e := s.server.Catalog().Lookup(mcp.KindTool, exposed)
		if e != nil {
			want.Launch = e.Origin.Launch
		}
		if e == nil || e.Origin != want {
			t.Errorf("%s is %+v, want %+v", exposed, e, want)
		}
	}
	if got := u.call("run_command", `{"command":"echo hi"}`); !strings.HasPrefix(got, "error: The policy") {
		t.Errorf("run_command: %s", got)
	}
	if status, answer := s.send("POST", "/custom-mcp", customServers(t, own, "hello")); status != http.StatusBadRequest || !strings.Contains(answer, own) {
		t.Errorf("a server with the sandbox's own name: %d %s", status, answer)
	}
	if got := u.call("mcp_sandbox_greet", `{}`); !strings.HasPrefix(got, "failure: ") {
		t.Errorf("mcp_sandbox_greet: %s", got)
	}
	o.customMCP = filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(o.customMCP, []byte(customServers(t, own, "hello")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newSandbox(t.Context(), guard, o, nil); err == nil || !strings.Contains(err.Error(), own) {
		t.Errorf("a file with a server with the sandbox's own name: %v", err)
	}
}

// A sandbox that is given its own URL as a server offers its tools once.
func TestTheSandboxItselfIsNotAdded(t *testing.T) {
	s := served(t, testOptions(t))
	before := s.server.Catalog().Len(mcp.KindTool)
	body := fmt.Sprintf(`{"mcpServers":{"self":{"url":"%s/mcp","headers":{"Authorization":"Bearer %s"}}}}`, s.url, s.token)
	if status, answer := s.send("POST", "/custom-mcp", body); status != http.StatusBadGateway || !strings.Contains(answer, "leads back") {
		t.Errorf("the sandbox itself: %d %s", status, answer)
	}
	if after := s.server.Catalog().Len(mcp.KindTool); after != before {
		t.Errorf("there are %d tools, want %d", after, before)
	}
}

func TestWrongOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*options){
		"-root DIR":               func(o *options) { o.root = "" },
		"nothing: no such file":   func(o *options) { o.root = "/nothing" },
		file + ":1:2":             func(o *options) { o.customMCP = file },
		"no-such: no such file":   func(o *options) { o.customMCP = "/no-such" },
		"no-policy: no such file": func(o *options) { o.policy = "/no-policy" },
		file + ": ":               func(o *options) { o.policy = file },
		"-browser: ":              func(o *options) { o.browser = "" },
	} {
		o := testOptions(t)
		change(&o)
		if _, err := newSandbox(t.Context(), guard, o, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

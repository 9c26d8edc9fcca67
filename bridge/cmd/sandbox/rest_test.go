//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Programs without MCP list and call tools at /mcp/tools, and get the texts of files unchanged.
func TestToolsOverHTTP(t *testing.T) {
	o := testOptions(t)
	o.raw = true
	s := served(t, o)
	const text = "import os\nprint('hello')\n"
	if err := os.WriteFile(filepath.Join(s.files.Dir(), "main.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, body := s.send("GET", "/mcp/tools", "")
	var list struct{ Tools []mcp.Tool }
	if err := json.Unmarshal([]byte(body), &list); status != http.StatusOK || err != nil || len(list.Tools) != s.server.Catalog().Len(mcp.KindTool) {
		t.Fatalf("%d, %d tools, %v: %.200s", status, len(list.Tools), err, body)
	}
	names := make(map[string]bool)
	for _, tool := range list.Tools {
		names[tool.Name] = len(tool.InputSchema) > 0
	}
	for name := range strings.FieldsSeq(`read_file write_file list_directory create_directory delete_file run_command run_background session_run search_files
		search_content browser_navigate browser_click browser_type browser_screenshot browser_scroll browser_evaluate register_port git_status`) {
		if !names[name] {
			t.Errorf("there is no tool %s", name)
		}
	}
	for request, want := range map[string]string{
		`{"name":"read_file","arguments":{"path":"main.py"}}`:             `"text":"import os\nprint('hello')\n"`,
		`{"name":"read_file","arguments":{"path":"main.py","raw":false}}`: `"text":"     1\timport os\n`,
		`{"name":"read_file","arguments":{"path":"../x"}}`:                `"isError":true`,
		`{"name":"no_such_tool","arguments":{}}`:                          `"status":404`,
		`{"name":"browser_no_such_tool","arguments":{}}`:                  `"status":404`,
		`{"name":"browser_mouse_wheel","arguments":{}}`:                   `"status":404`, // its name is browser_scroll
		`{"arguments":{}}`: `"status":400`,
	} {
		status, body := s.send("POST", "/mcp/tools/call", request)
		if !strings.Contains(body, want) || (status == http.StatusOK) == strings.Contains(want, "status") {
			t.Errorf("%s: %d %s, want %s", request, status, body, want)
		}
	}
	if status, _ := s.send("DELETE", "/mcp/tools", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", status)
	}
}

// A credential that a control request sets is a variable of the commands that name it.
func TestCredentialOfACommand(t *testing.T) {
	s := served(t, testOptions(t))
	const key = "hunter2-hunter2"
	if status, body := s.send("POST", "/mcp/credential", `{"user_api_key":"`+key+`","session_id":"abc123"}`); status != http.StatusOK || strings.Contains(body, key) {
		t.Fatalf("%d %s", status, body)
	}
	for arguments, want := range map[string]string{
		`{"command":"echo ${#USER_API_KEY} $USER_API_KEY","credentials":["abc123"]}`: `"stdout":"15 [redacted]\\n"`,
		`{"command":"echo ${#USER_API_KEY}"}`:                                        `"stdout":"0\\n"`,
		`{"command":"true","credentials":["another"]}`:                               `there is no credential`,
	} {
		got := s.callOverHTTP("run_command", arguments)
		if !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), want) || strings.Contains(got, key) {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
	for body, want := range map[string]int{
		`{"user_api_key":"k","session_id":"a\u0000b"}`: http.StatusBadRequest,
		`{"user_api_key":"k\u0000","session_id":"a"}`:  http.StatusBadRequest,
	} {
		if status, answer := s.send("POST", "/credential", body); status != want {
			t.Errorf("%q: %d %s", body, status, answer)
		}
	}
	for i := range 64 {
		status, answer := s.send("POST", "/credential", fmt.Sprintf(`{"user_api_key":"k","session_id":"%d"}`, i))
		if want := map[bool]int{true: http.StatusConflict, false: http.StatusOK}[i == 63]; status != want {
			t.Errorf("session %d: %d %s", i, status, answer)
		}
	}
}

// callOverHTTP returns the body of a call without MCP.
func (s *site) callOverHTTP(tool, arguments string) string {
	s.t.Helper()
	_, body := s.send("POST", "/mcp/tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	return body
}

func TestPublicPorts(t *testing.T) {
	o := testOptions(t)
	o.portURL = "https://{port}-host.example"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := o.addPorts(port); err != nil {
		t.Fatal(err)
	}
	s := served(t, o)
	if got := s.callOverHTTP("register_port", `{"port":`+port+`}`); !strings.Contains(got, "https://"+port+"-host.example") {
		t.Error(got)
	}
	own := s.url[strings.LastIndex(s.url, ":")+1:] // of no command, and not in -ports
	if got := s.callOverHTTP("register_port", `{"port":`+own+`}`); !strings.Contains(got, "no command of this shell has started") {
		t.Error(got)
	}
	o.portURL = "https://host.example"
	if _, err := newSandbox(t.Context(), guard, o, nil); err == nil || !strings.Contains(err.Error(), "PortURL") {
		t.Errorf("a URL without a port: %v", err)
	}
}

// The names of other systems reach the tools of the Playwright MCP server, in both eras.
func TestBrowserNames(t *testing.T) {
	t.Setenv(asBrowser, "1")
	o := testOptions(t)
	o.browser, o.chromium, o.pass = os.Args[0], os.Args[0], o.pass+","+asBrowser
	s := started(t, o)
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), transport.Pipe(s.server), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		for _, c := range []struct{ tool, arguments, want string }{
			{"browser_screenshot", `{"type": "png"}`, `browser_take_screenshot {"type": "png"}`},
			{"browser_take_screenshot", `{"type": "png"}`, `browser_take_screenshot {"type": "png"}`},
			{"browser_scroll", `{"deltaX": 0, "deltaY": 1e2}`, `browser_mouse_wheel {"deltaX": 0, "deltaY": 1e2}`},
			{"browser_navigate", `{"url": "about:blank"}`, `browser_navigate {"url": "about:blank"}`},
			{"browser_snapshot", `{"filename": ""}`, `browser_snapshot {"filename": ""}`},
			{"browser_snapshot", `{"filename": "../a.yml"}`, `browser_snapshot {"filename": "../a.yml"}`}, // refused there
		} {
			result, err := session.CallTool(t.Context(), c.tool, json.RawMessage(c.arguments), nil)
			if err != nil {
				t.Errorf("%v, %s: %v", era, c.tool, err)
				continue
			}
			if got := result.Content[0].(*mcp.TextContent).Text; got != c.want {
				t.Errorf("%v, %s: %s, want %s", era, c.tool, got, c.want)
			}
		}
	}
	if e := s.server.Catalog().Lookup(mcp.KindTool, "browser_mouse_wheel"); e != nil {
		t.Error("browser_mouse_wheel is offered under its own name, too")
	}
}

// TestHosts: a name of this machine is accepted on request.
func TestHosts(t *testing.T) {
	for _, hosts := range [][]string{nil, {"sandbox.example"}} {
		o := testOptions(t)
		o.hosts = hosts
		s := served(t, o)
		for path, method := range map[string]string{"/mcp": http.MethodPost, "/mcp/tools": http.MethodGet, "/sidecars/codex": http.MethodPost} {
			if status, body := s.send(method, path, "", "Host", "sandbox.example:6060"); (status == http.StatusForbidden) != (hosts == nil) {
				t.Errorf("%s with -host %v: %d %s", path, hosts, status, body)
			}
			if status, body := s.send(method, path, "", "Host", "other.example"); status != http.StatusForbidden {
				t.Errorf("%s with another host: %d %s", path, status, body)
			}
		}
	}
	o := &options{}
	if err := o.addHost("sandbox.example:6060"); err != nil {
		t.Error(err)
	}
	if err := o.addHost("http://sandbox.example"); err == nil {
		t.Error("a URL was taken for a host name")
	}
}

// A rule for the tool of the Playwright MCP server applies to the same tool under another name.
func TestRulesOfBrowserNames(t *testing.T) {
	o := testOptions(t)
	o.policy = filepath.Join(t.TempDir(), "policy.json")
	rules := `{"rules": [{"effect": "deny", "names": ["browser_take_screenshot", "browser_mouse_wheel"]}, {"effect": "allow", "names": ["*"]}]}`
	if err := os.WriteFile(o.policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, started(t, o))
	for tool, arguments := range map[string]string{"browser_screenshot": `{}`, "browser_take_screenshot": `{}`, "browser_scroll": `{"deltaX":0,"deltaY":1}`} {
		if got := u.call(tool, arguments); !strings.Contains(got, "The policy does not allow the tool") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := u.call("browser_navigate", `{"url":"about:blank"}`); !strings.Contains(got, "not installed") {
		t.Error(got)
	}
}

package clients

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var system = &System{OS: "linux", Home: "/home/ann", Config: "/home/ann/.config", AppData: `/appdata`, Project: "/src/app", Program: "/bin/dovetail"}

func TestPaths(t *testing.T) {
	paths := map[string][3]string{ // linux, darwin, windows
		"claude-desktop": {"/home/ann/.config/Claude/claude_desktop_config.json", "/home/ann/Library/Application Support/Claude/claude_desktop_config.json", "/appdata/Claude/claude_desktop_config.json"},
		"claude-code":    {"/home/ann/.claude.json", "/home/ann/.claude.json", "/home/ann/.claude.json"},
		"cursor":         {"/home/ann/.cursor/mcp.json", "/home/ann/.cursor/mcp.json", "/home/ann/.cursor/mcp.json"},
		"vscode":         {"/home/ann/.config/Code/User/mcp.json", "/home/ann/Library/Application Support/Code/User/mcp.json", "/appdata/Code/User/mcp.json"},
		"windsurf":       {"/home/ann/.codeium/windsurf/mcp_config.json", "/home/ann/.codeium/windsurf/mcp_config.json", "/home/ann/.codeium/windsurf/mcp_config.json"},
		"zed":            {"/home/ann/.config/zed/settings.json", "/home/ann/.config/zed/settings.json", "/appdata/Zed/settings.json"},
		"codex":          {"/home/ann/.codex/config.toml", "/home/ann/.codex/config.toml", "/home/ann/.codex/config.toml"},
		"gemini":         {"/home/ann/.gemini/settings.json", "/home/ann/.gemini/settings.json", "/home/ann/.gemini/settings.json"},
	}
	for _, c := range All() {
		want, ok := paths[c.ID]
		for i, os := range []string{"linux", "darwin", "windows"} {
			sys := *system
			sys.OS = os
			if got := c.Path(&sys, false); ok && got != filepath.FromSlash(want[i]) {
				t.Errorf("%s on %s: %s, want %s", c.ID, os, got, want[i])
			}
		}
	}
}

// Each client reads back the added server, in the form that the client documents.
func TestAddAndRead(t *testing.T) {
	local := &Server{Command: "npx", Args: []string{"-y", "a&b"}, Env: map[string]string{"KEY": "v"}}
	remote := &Server{URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer x"}}
	forms := map[string][2]string{
		"claude-desktop": {`{"command":"npx","args":["-y","a&b"],"env":{"KEY":"v"}}`, `{"command":"/bin/dovetail","args":["relay","-header-env","DOVETAIL_HEADER_1","https://example.com/mcp"],"env":{"DOVETAIL_HEADER_1":"Authorization:Bearerx"}}`},
		"claude-code":    {`{"type":"stdio","command":"npx","args":["-y","a&b"],"env":{"KEY":"v"}}`, `{"type":"http","url":"https://example.com/mcp","headers":{"Authorization":"Bearer x"}}`},
		"windsurf":       {`{"command":"npx","args":["-y","a&b"],"env":{"KEY":"v"}}`, `{"serverUrl":"https://example.com/mcp","headers":{"Authorization":"Bearer x"}}`},
		"gemini":         {`{"command":"npx","args":["-y","a&b"],"env":{"KEY":"v"}}`, `{"httpUrl":"https://example.com/mcp","headers":{"Authorization":"Bearer x"}}`},
		"opencode":       {`{"type":"local","command":["npx","-y","a&b"],"environment":{"KEY":"v"}}`, `{"type":"remote","url":"https://example.com/mcp","headers":{"Authorization":"Bearer x"}}`},
	}
	for _, c := range All() {
		for i, s := range []*Server{local, remote} {
			text, err := c.Add(system, nil, "my srv", s)
			if err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			var written map[string]map[string]json.RawMessage
			if form, ok := forms[c.ID]; ok {
				if err := json.Unmarshal(text, &written); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(strings.Fields(string(written[c.key]["my srv"])), ""); got != strings.ReplaceAll(form[i], " ", "") {
					t.Errorf("%s has %s, want %s", c.ID, got, form[i])
				}
			}
			common, err := c.Servers(text)
			if err != nil {
				t.Fatal(err)
			}
			file, err := config.Parse(common, "f")
			if err != nil || len(file.Servers) != 1 || file.Servers[0].Name != "my srv" || i == 0 && (file.Servers[0].Args[1] != "a&b" || file.Servers[0].Env["KEY"] != "v") ||
				i == 1 && c.ID != "claude-desktop" && (file.Servers[0].URL != remote.URL || file.Servers[0].Headers["Authorization"] != "Bearer x") {
				t.Errorf("%s reads %s: %v", c.ID, common, err)
			}
			removed, err := c.Remove(text, "my srv")
			if err != nil || strings.Contains(string(removed), "srv") {
				t.Errorf("%s: removed %s, error %v", c.ID, removed, err)
			}
			if _, err := c.Remove(removed, "my srv"); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: removed twice: %v", c.ID, err)
			}
		}
	}
}

// What a client's file says about its variables survives the reading of its servers.
func TestServersKeepVariables(t *testing.T) {
	env := map[string]string{"TOKEN": "t", "TEAM": "red"}
	for _, test := range []struct{ client, text, want string }{
		{"codex", "[mcp_servers.s]\nurl = 'https://e.example'\nbearer_token_env_var = 'TOKEN'\nhttp_headers = {A = '1'}\nenv_http_headers = {B = 'TEAM'}\ntool_timeout_sec = 60\n", "A=1 Authorization=Bearer t B=red"},
		{"codex", "[mcp_servers.s]\nurl = 'https://e.example'\nbearer_token_env_var = 'NO'\n", "error: bearer_token_env_var: ${NO} has no value"},
		{"codex", "[mcp_servers.s]\ncommand = 'x'\nenv = {A = '1'}\nenv_vars = ['TOKEN']\n", "A=1 TOKEN=t"},
		{"opencode", `{"mcp":{"s":{"type":"remote","url":"https://e.example","headers":{"A":"Bearer {env:TOKEN}"}}}}`, "A=Bearer t"},
		{"opencode", `{"mcp":{"s":{"type":"local","command":["x"],"environment":{"A":"{env:TOKEN}"},"timeout":5000}}}`, "A=t"},
		{"gemini", `{"mcpServers":{"s":{"command":"x","env":{"A":"x-$TOKEN-y"},"timeout":5}}}`, "A=x-t-y"},
		{"vscode", `{"servers":{"s":{"command":"x","env":{"A":"${input:i}"}}},"inputs":[{"id":"i","type":"promptString","default":"d"}]}`, "A=d"},
		{"copilot", `{"mcpServers":{"s":{"type":"local","command":"x","tools":["*"],"env":{"A":"$TOKEN"}}}}`, "A=t"},
		{"zed", `{"context_servers":{"s":{"source":"custom","command":{"path":"x","env":{"A":"1"}}},"extension":{"settings":{}}}}`, "A=1"},
	} {
		for _, c := range All() {
			if c.ID != test.client {
				continue
			}
			common, err := c.Servers([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			file, err := config.Parse(common, c.Path(system, false))
			if err != nil || len(file.Servers) != 1 {
				t.Errorf("%s: %s: %v", c.ID, test.text, err)
				continue
			}
			r, err := file.Servers[0].Expand(t.Context(), &config.Expander{LookupEnv: func(name string) (string, bool) {
				value, ok := env[name]
				return value, ok
			}})
			got := ""
			if err == nil {
				values := r.Headers
				if r.Type == "stdio" {
					values = r.Env
				}
				for _, name := range slices.Sorted(maps.Keys(values)) {
					got += " " + name + "=" + values[name].Reveal()
				}
			}
			want, fails := strings.CutPrefix(test.want, "error: ")
			if fails && (err == nil || !strings.Contains(err.Error(), want)) || !fails && (err != nil || strings.TrimSpace(got) != want) {
				t.Errorf("%s: %s: %s %v, want %s", c.ID, test.text, got, err, test.want)
			}
		}
	}
}

package clients

import (
	"encoding/json"
	"errors"
	"path/filepath"
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

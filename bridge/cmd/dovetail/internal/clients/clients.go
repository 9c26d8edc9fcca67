// Package clients knows where widespread MCP clients keep their servers, and in which form.
package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/jsonedit"
	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/tomledit"
)

// A Server is how a client starts or reaches a server.
type Server struct {
	Command string
	Args    []string
	Env     map[string]string
	URL     string
	Headers map[string]string
}

// A System says where a user's files are.
type System struct {
	OS      string // as in GOOS
	Home    string
	AppData string // of Windows
	Config  string // of other systems, such as ~/.config
	Project string // the folder of the project
	Codex   string // the folder of Codex, "" for ~/.codex
	Program string // the path of this program, which relays to a URL for clients that cannot
}

// A Client is a program that uses MCP servers.
type Client struct {
	ID, Name string
	isTOML   bool
	key      string // the member with the servers
	user     func(*System) string
	project  string // relative to the project, "" for none
	entry    func(*System, *Server) fields
}

// A field is a member of an entry. Members with empty values are left out.
type field struct {
	name  string
	value any
}

type fields []field

// All returns the clients, in the order in which they are listed.
func All() []*Client {
	return []*Client{
		{ID: "claude-desktop", Name: "Claude Desktop", key: "mcpServers", user: appFile("Claude", "claude_desktop_config.json"), entry: relayed},
		{ID: "claude-code", Name: "Claude Code", key: "mcpServers", user: homeFile(".claude.json"), project: ".mcp.json", entry: typed("stdio", "http")},
		{ID: "cursor", Name: "Cursor", key: "mcpServers", user: homeFile(".cursor/mcp.json"), project: ".cursor/mcp.json", entry: plain("url")},
		{ID: "vscode", Name: "VS Code", key: "servers", user: appFile("Code", "User/mcp.json"), project: ".vscode/mcp.json", entry: typed("stdio", "http")},
		{ID: "windsurf", Name: "Windsurf", key: "mcpServers", user: homeFile(".codeium/windsurf/mcp_config.json"), entry: plain("serverUrl")},
		{ID: "zed", Name: "Zed", key: "context_servers", user: zedFile, project: ".zed/settings.json", entry: plain("url")},
		{ID: "codex", Name: "Codex", isTOML: true, key: "mcp_servers", user: codexFile, project: ".codex/config.toml", entry: codex},
		{ID: "gemini", Name: "Gemini CLI", key: "mcpServers", user: homeFile(".gemini/settings.json"), project: ".gemini/settings.json", entry: plain("httpUrl")},
		{ID: "copilot", Name: "Copilot CLI", key: "mcpServers", user: homeFile(".copilot/mcp-config.json"), entry: copilot},
		{ID: "cline", Name: "Cline", key: "mcpServers", user: appFile("Code", "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"), entry: cline},
		{ID: "lmstudio", Name: "LM Studio", key: "mcpServers", user: homeFile(".lmstudio/mcp.json"), entry: plain("url")},
		{ID: "opencode", Name: "OpenCode", key: "mcp", user: openCodeFile, project: "opencode.json", entry: openCode},
	}
}

// Path returns the path of the client's file for the user or for the project. It returns "" if the client has no such
// file.
func (c *Client) Path(sys *System, project bool) string {
	if !project {
		return c.user(sys)
	}
	if c.project == "" {
		return ""
	}
	return filepath.Join(sys.Project, filepath.FromSlash(c.project))
}

func homeFile(name string) func(*System) string {
	return func(sys *System) string { return filepath.Join(sys.Home, filepath.FromSlash(name)) }
}

// appFile returns the path of a file of an application.
func appFile(app, name string) func(*System) string {
	return func(sys *System) string {
		folder := sys.Config
		switch sys.OS {
		case "windows":
			folder = sys.AppData
		case "darwin":
			folder = filepath.Join(sys.Home, "Library", "Application Support")
		}
		return filepath.Join(folder, app, filepath.FromSlash(name))
	}
}

func zedFile(sys *System) string {
	switch sys.OS {
	case "windows":
		return filepath.Join(sys.AppData, "Zed", "settings.json")
	case "darwin":
		return filepath.Join(sys.Home, ".config", "zed", "settings.json")
	}
	return filepath.Join(sys.Config, "zed", "settings.json")
}

func codexFile(sys *System) string {
	if sys.Codex != "" {
		return filepath.Join(sys.Codex, "config.toml")
	}
	return filepath.Join(sys.Home, ".codex", "config.toml")
}

func openCodeFile(sys *System) string {
	folder := sys.Config
	if sys.OS == "windows" || sys.OS == "darwin" {
		folder = filepath.Join(sys.Home, ".config")
	}
	return filepath.Join(folder, "opencode", "opencode.json")
}

// plain returns entries without a type. url is the name of the URL.
func plain(url string) func(*System, *Server) fields {
	return func(_ *System, s *Server) fields {
		return fields{{"command", s.Command}, {"args", s.Args}, {"env", s.Env}, {url, s.URL}, {"headers", s.Headers}}
	}
}

// typed returns entries with a type.
func typed(local, remote string) func(*System, *Server) fields {
	return func(sys *System, s *Server) fields {
		kind := local
		if s.URL != "" {
			kind = remote
		}
		return append(fields{{"type", kind}}, plain("url")(sys, s)...)
	}
}

// relayed returns entries of a client that only starts programs. Headers are not arguments, which other
// users of the machine can see.
func relayed(sys *System, s *Server) fields {
	if s.URL == "" {
		return plain("url")(sys, s)
	}
	args, env := []string{"relay"}, make(map[string]string)
	for i, name := range slices.Sorted(maps.Keys(s.Headers)) {
		variable := fmt.Sprintf("DOVETAIL_HEADER_%d", i+1)
		args, env[variable] = append(args, "-header-env", variable), name+": "+s.Headers[name]
	}
	return fields{{"command", sys.Program}, {"args", append(args, s.URL)}, {"env", env}}
}

func codex(_ *System, s *Server) fields {
	return fields{{"command", s.Command}, {"args", s.Args}, {"env", s.Env}, {"url", s.URL}, {"http_headers", s.Headers}}
}

func copilot(sys *System, s *Server) fields {
	return append(typed("local", "http")(sys, s), field{"tools", []string{"*"}})
}

func cline(sys *System, s *Server) fields {
	if s.URL == "" {
		return plain("url")(sys, s)
	}
	return typed("", "streamableHttp")(sys, s)
}

func openCode(_ *System, s *Server) fields {
	if s.URL != "" {
		return fields{{"type", "remote"}, {"url", s.URL}, {"headers", s.Headers}}
	}
	return fields{{"type", "local"}, {"command", append([]string{s.Command}, s.Args...)}, {"environment", s.Env}}
}

// isEmpty reports whether a value of a field is left out.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case string:
		return value == ""
	case []string:
		return len(value) == 0
	case map[string]string:
		return len(value) == 0
	}
	return false
}

// Add returns the text of the client's file with a server. An existing server of that name is
// replaced.
func (c *Client) Add(sys *System, text []byte, name string, s *Server) ([]byte, error) {
	entry := slices.DeleteFunc(c.entry(sys, s), func(f field) bool { return isEmpty(f.value) })
	if c.isTOML {
		values := make(map[string]any)
		for _, f := range entry {
			values[f.name] = f.value
		}
		return tomledit.Set(text, c.key, name, values)
	}
	var b bytes.Buffer
	for i, f := range entry {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:", f.name)
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(f.value); err != nil {
			return nil, err
		}
	}
	return jsonedit.Set(text, []string{c.key}, name, append(append([]byte{'{'}, b.Bytes()...), '}'))
}

// ErrNotFound is the error of removing a server that a file does not have.
var ErrNotFound = errors.New("the file has no such server")

// Remove returns the text of the client's file without a server.
func (c *Client) Remove(text []byte, name string) ([]byte, error) {
	var out []byte
	var err error
	if c.isTOML {
		out, err = tomledit.Remove(text, c.key, name)
	} else {
		out, err = jsonedit.Remove(text, []string{c.key}, name)
	}
	if errors.Is(err, jsonedit.ErrNotFound) || errors.Is(err, tomledit.ErrNotFound) {
		return nil, ErrNotFound
	}
	return out, err
}

// Has reports whether the text of the client's file has a server.
func (c *Client) Has(text []byte, name string) (bool, error) {
	members, err := c.decode(text)
	servers, _ := members[c.key].(map[string]any)
	_, ok := servers[name]
	return ok, err
}

// decode returns the members of the client's file.
func (c *Client) decode(text []byte) (map[string]any, error) {
	var members map[string]any
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if c.isTOML {
		return tomledit.Decode(text)
	}
	plain, err := jsonedit.Plain(text)
	if err == nil {
		err = json.Unmarshal(plain, &members)
	}
	return members, err
}

// Servers returns the servers in the text of the client's file, in JSON, as config.Parse reads them. Timeouts are left
// out.
func (c *Client) Servers(text []byte) ([]byte, error) {
	members, err := c.decode(text)
	if err != nil {
		return nil, err
	}
	servers, _ := members[c.key].(map[string]any)
	for name, value := range servers {
		entry, ok := value.(map[string]any)
		if !ok {
			delete(servers, name)
			continue
		}
		for _, timeout := range []string{"timeout", "startup_timeout_sec", "tool_timeout_sec", "startup_timeout_ms"} {
			delete(entry, timeout)
		}
	}
	if servers == nil {
		servers = map[string]any{}
	}
	common := map[string]any{c.key: servers}
	if inputs := members["inputs"]; inputs != nil { // VS Code
		common["inputs"] = inputs
	}
	return json.Marshal(common)
}

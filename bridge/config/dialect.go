package config

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A dialect is how a host writes what other hosts write in another way.
type dialect struct {
	braces  bool          // variables are written {env:NAME} and {file:PATH}, too
	dollar  bool          // variables are written $NAME in all texts, too
	timeout time.Duration // the unit of a timeout; 0 if it does not limit calls
	plugins bool          // a server without a command and a URL is a part of an extension of the host
	others  bool          // the file has settings of the host that are not about servers
}

// A wrapper is a member of a file that contains the servers.
type wrapper struct {
	name    string
	dialect dialect
}

// wrappers are the members that contain the servers.
var wrappers = []wrapper{
	{"mcpServers", dialect{timeout: time.Millisecond}},
	{"servers", dialect{timeout: time.Millisecond}},                                 // VS Code
	{"mcp", dialect{braces: true, others: true}},                                    // OpenCode
	{"context_servers", dialect{timeout: time.Second, plugins: true, others: true}}, // Zed
	{"mcp_servers", dialect{others: true}},                                          // Codex, whose file is TOML
}

// geminiMembers are members of servers that only Gemini CLI and its forks have.
var geminiMembers = []string{"httpUrl", "trust", "authProviderType"}

// isGemini reports whether servers are those of Gemini CLI or Qwen Code, which replace $NAME.
func (p *parser) isGemini(servers cursor) bool {
	folder := filepath.Base(filepath.Dir(p.file.Name))
	if folder == ".gemini" || folder == ".qwen" {
		return true
	}
	if servers.kind() != jsonscan.Object {
		return false
	}
	all, err := jsonscan.ReadObject(servers.raw)
	if err != nil {
		return false
	}
	for entry := range all.All() {
		members, err := jsonscan.ReadObject(entry.Value)
		if err == nil && slices.ContainsFunc(geminiMembers, func(name string) bool { return members.Get(name) != nil }) {
			return true
		}
	}
	return false
}

// variable returns the variable of the host at an offset of a text, and its length. The length is 0 if there is none, or it
// is written ${NAME}.
func (d *dialect) variable(field, text string, at int) (v variable, length int) {
	rest := text[at:]
	if d.braces {
		for _, scheme := range []string{"env", "file"} {
			if after, ok := strings.CutPrefix(rest, "{"+scheme+":"); ok {
				if name, _, closed := strings.Cut(after, "}"); closed && name != "" {
					return variable{scheme: scheme, name: name}, len("{" + scheme + ":" + name + "}")
				}
			}
		}
	}
	name, ok := strings.CutPrefix(rest, "$")
	end := strings.IndexFunc(name, func(r rune) bool { return !isWord(r) })
	if end >= 0 {
		name = name[:end]
	}
	length = len("$" + name)
	switch {
	case !ok, name == "", '0' <= name[0] && name[0] <= '9':
		return variable{}, 0
	case d.dollar:
	case strings.HasPrefix(field, "env."):
		ok = length == len(text)
	case strings.HasPrefix(field, "headers."):
		ok = (at == 0 || text[at-1] == ' ') && (length == len(rest) || rest[length] == ' ')
	default:
		ok = false
	}
	if !ok {
		return variable{}, 0
	}
	return variable{name: name}, length
}

// isForShell reports whether a text may be a command for a shell, which has other variables.
func isForShell(field string) bool { return field == "command" || strings.HasPrefix(field, "args[") }

// hasScheme reports whether the text between ${ and } is a variable of a host that is not known, such as ${workspaceFolder:a}.
// A shell writes numbers and operators after the colon.
func hasScheme(body string) bool {
	scheme, name, _ := strings.Cut(body, ":")
	isLetter := func(r rune) bool { return isWord(r) && (r < '0' || r > '9') && r != '_' }
	isOther := func(r rune) bool { return !isLetter(r) }
	return name != "" && isLetter(rune(name[0])) && scheme != "" && 'a' <= scheme[0] && !strings.ContainsFunc(scheme, isOther)
}

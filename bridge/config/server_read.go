package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// serverKeys are the names of a server's members, and the one of each under which
// it is known here.
var serverKeys = map[string]string{
	"command": "command", "args": "args", "env": "env",
	"envFile": "envFile", "env_file": "envFile",
	"cwd": "cwd", "working_dir": "cwd", "workingDir": "cwd", "workingDirectory": "cwd",
	"url": "url", "httpUrl": "url", "serverUrl": "url",
	"headers": "headers", "http_headers": "headers", "httpHeaders": "headers",
	"type": "type", "transport": "type", "transportType": "type", "protocol": "type",
	"disabled": "disabled", "enabled": "disabled",
	"timeout":      "timeout",
	"includeTools": "allow", "allowedTools": "allow", "enabledTools": "allow", "enabled_tools": "allow",
	"excludeTools": "deny", "disabledTools": "deny", "disabled_tools": "deny",
	"dovetail": "dovetail",
}

// given are the members of one server, by the names under which they are known here.
type given map[string]member

func readServer(key, value cursor, named bool) *Server {
	s := &Server{Alias: value.server, file: value.parser.file, places: map[string]place{"": {at: key.at}}}
	before := len(value.parser.errs)
	members := make(given)
	var others []member
	for m := range value.members("an object with a server") {
		name, known := serverKeys[m.name]
		switch other, twice := members[name]; {
		case named && m.name == "name":
		case !known:
			others = append(others, m)
		case m.kind() == jsonscan.Null:
		case twice:
			m.key.fail("%q says the same as %q: expected one of them", m.name, other.name)
		default:
			members[name] = m
			s.places[name] = place{m.field, m.at}
		}
	}
	members.fields(s)
	for _, m := range others {
		m.keep(&s.Extra, maps.Keys(serverKeys))
	}
	members.options(&s.Options)
	if len(value.parser.errs) == before {
		members.settle(s, key)
	}
	return s
}

// fields reads what all hosts have.
func (g given) fields(s *Server) {
	s.Type = g["type"].transport()
	s.Command = g["command"].text()
	for element := range g["args"].elements("an array of strings") {
		s.places[fmt.Sprintf("args[%d]", len(s.Args))] = place{element.field, element.at}
		s.Args = append(s.Args, element.text())
	}
	s.Env = s.table("env", g["env"], "an object with variables", checkVariable)
	s.EnvFile = g["envFile"].text()
	s.Dir = g["cwd"].text()
	s.URL = g["url"].text()
	s.Headers = s.table("headers", g["headers"], "an object with headers", checkHeader)
	if m, ok := g["disabled"]; ok {
		s.Disabled = m.flag() == (m.name == "disabled")
	}
}

// options reads our own, and what others have outside of them. Ours win.
func (g given) options(o *Options) {
	g["dovetail"].options(o)
	timeout := g["timeout"].duration()
	if g["timeout"].kind() == jsonscan.Number && 0 < timeout && timeout < shortTimeout {
		g["timeout"].warn("it is %v: numbers are milliseconds", timeout)
	}
	o.CallTimeout = cmp.Or(o.CallTimeout, timeout)
	allow := g["allow"].texts()
	if m, ok := g["allow"]; ok && len(allow) == 0 {
		m.warn("is empty, and so allows all tools")
	}
	if o.Tools.Allow == nil {
		o.Tools.Allow = allow
	}
	o.Tools.Deny = append(g["deny"].texts(), o.Tools.Deny...)
}

// table reads texts by their names, which must pass a check.
func (s *Server) table(field string, m member, what string, check func(name string) string) map[string]string {
	if m.raw == nil {
		return nil
	}
	table := make(map[string]string)
	folded := make(map[string]bool)
	for entry := range m.members(what) {
		if wrong := check(entry.name); wrong != "" {
			entry.key.fail("%s", wrong)
			continue
		}
		if lower := strings.ToLower(entry.name); field == "headers" {
			if folded[lower] {
				entry.key.fail("a second header of this name: case does not count")
			}
			folded[lower] = true
		}
		s.places[field+"."+entry.name] = place{entry.field, entry.at}
		switch entry.kind() {
		case jsonscan.Number, jsonscan.Bool:
			table[entry.name] = string(entry.raw)
		case jsonscan.Null:
			entry.warn("is null, and so left out")
		default:
			text := entry.text()
			if name, dollar := strings.CutPrefix(text, "$"); dollar && isName(name) {
				entry.warn("is taken as it stands: variables are written ${NAME}")
			}
			table[entry.name] = text
		}
	}
	return table
}

// checkVariable says what is wrong with the name of a variable.
func checkVariable(name string) string {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return "expected the name of a variable, without ="
	}
	return ""
}

// checkHeader says what is wrong with the name of a header. RFC 9110, section 5.1.
func checkHeader(name string) string {
	isNoToken := func(r rune) bool { return !isWord(r) && !strings.ContainsRune("!#$%&'*+-.^`|~", r) }
	if name == "" || strings.ContainsFunc(name, isNoToken) {
		return "expected the name of a header"
	}
	return ""
}

// transport reads a type in any of the spellings that are in use.
func (c cursor) transport() Type {
	text := c.text()
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(text)) {
	case "stdio":
		return Stdio
	case "http", "streamable", "streamablehttp":
		return HTTP
	case "sse":
		return SSE
	case "ws", "websocket":
		return WebSocket
	}
	if c.kind() == jsonscan.String {
		c.fail("expected stdio, http (or streamable-http), sse or ws, found %s", jsonscan.Quote(text))
	}
	return ""
}

// settle finds the type, and what does not go with it.
func (g given) settle(s *Server, key cursor) {
	switch {
	case s.Type == Stdio && s.Command == "":
		key.fail(`expected "command": its type is stdio`)
	case s.Type != "" && s.Type != Stdio && s.URL == "":
		key.fail(`expected "url": its type is %s`, s.Type)
	case s.Type != "":
	case s.Command != "" && s.URL != "":
		key.fail(`expected "command" or "url", found both: "type" can decide`)
	case s.Command != "":
		s.Type = Stdio
	case s.URL == "":
		key.fail(`expected "command" or "url"`)
	case g["url"].name == "httpUrl":
		s.Type = HTTP
	default:
		s.Type, s.guessed = typeOf(s.URL), true
	}
	unused := []string{"command", "args", "env", "envFile", "cwd"}
	if s.Type == Stdio {
		unused = []string{"url", "headers"}
	}
	for _, name := range unused {
		if m, ok := g[name]; ok {
			m.key.warn("has no effect: the server's type is %s", s.Type)
		}
	}
}

// sortedKeys are those of a map in an order that does not change.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Types of servers.
const (
	typeStdio     = "stdio" // a child process
	typeHTTP      = "http"  // streamable HTTP
	typeSSE       = "sse"   // HTTP+SSE of protocol version 2024-11-05
	typeWebSocket = "ws"
)

// A Server is one server of a file, with variables unexpanded. It may contain secrets that are
// written in the file; it prints as its alias and type only.
type Server struct {
	// Alias identifies the server; see [bridge.CheckAlias] and [Parse].
	Alias string
	// Name is the name of the server in the file.
	Name string
	// Type is the type in the file, or the one that follows from the command or URL: "stdio" (a child process), "http"
	// (Streamable HTTP), "sse" (HTTP+SSE of protocol version 2024-11-05) or "ws" (WebSocket).
	Type string
	// Command is the program of a stdio server, Args are its arguments.
	Command string
	Args    []string
	// Env are environment variables of the program. They take precedence over EnvFile.
	Env map[string]string
	// EnvFile is the path of a file of environment variables, with lines NAME=value and
	// comments after #. Values may be in single quotes, or in double quotes with the escapes
	// \n, \r, \t, \" and \\.
	EnvFile string
	// Dir is the working directory of the program. "" means the working directory of this process.
	Dir string
	// URL is the address of a remote server, Headers are sent with each request.
	URL     string
	Headers map[string]string
	// OAuth is how a program logs in at a remote server; nil if the file does not say.
	OAuth *OAuth
	// Disabled servers are left out by [File.Expand].
	Disabled bool
	// Options are the settings under "dovetail".
	Options Options
	// Extra are the unknown members.
	Extra map[string]json.RawMessage

	guessed   bool // Type follows from the URL
	dialect   dialect
	readsEnv  bool // Headers contain variables of members that name environment variables
	file      *File
	positions map[string]position // of members, by their standard names
}

// OAuth is the registration of a program at the authorization server of a remote server.
type OAuth struct {
	// ClientID identifies the program, and ClientSecret authenticates it.
	ClientID, ClientSecret string
	// Issuer is the authorization server of the registration, which is used with no other. "" means the first one that the
	// server names.
	Issuer string
	// CallbackPort is the port of the redirect URI on this machine; 0 means any.
	CallbackPort int
	// Scopes are requested in addition to those that the server demands. A text may have several, separated by spaces.
	Scopes []string
}

// A position is the offset of a member in the file, and its path there.
type position struct {
	field string
	at    int
}

// Format prints the alias and the type.
func (s Server) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%s (%s)", s.Alias, s.Type) }

// MarshalText returns the text that Format prints. encoding/json and log/slog use it.
func (s Server) MarshalText() ([]byte, error) { return fmt.Append(nil, s), nil }

// typeOf returns the type of a server with a URL. The dialer of HTTP falls back to HTTP+SSE.
func typeOf(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
	case u.Scheme == "ws", u.Scheme == "wss":
		return typeWebSocket
	case path.Base(u.Path) == "sse":
		return typeSSE
	}
	return typeHTTP
}

// shortTimeout is the least timeout without a unit. A shorter one was probably meant in seconds.
const shortTimeout = time.Second

// serverKeys maps the names of a server's members to their standard names.
var serverKeys = map[string]string{
	"command": "command", "args": "args", "env": "env", "environment": "env", "env_vars": "passEnv",
	"envFile": "envFile", "env_file": "envFile",
	"cwd": "cwd", "working_dir": "cwd", "workingDir": "cwd", "workingDirectory": "cwd",
	"url": "url", "httpUrl": "url", "serverUrl": "url",
	"headers": "headers", "http_headers": "headers", "httpHeaders": "headers",
	"bearer_token_env_var": "token", "env_http_headers": "envHeaders",
	"type": "type", "transport": "type", "transportType": "type", "protocol": "type",
	"disabled": "disabled", "enabled": "disabled",
	"oauth":   "oauth",
	"timeout": "timeout", "tool_timeout_sec": "callSeconds",
	"startup_timeout_sec": "startSeconds", "startup_timeout_ms": "startMillis",
	"includeTools": "allow", "tools": "allow", "allowedTools": "allow", "enabledTools": "allow", "enabled_tools": "allow",
	"excludeTools": "deny", "disabledTools": "deny", "disabled_tools": "deny",
	"dovetail": "dovetail",
	"source":   "source", // of Zed: always custom
}

// serverMembers are the members of a server, by their standard names.
type serverMembers map[string]member

func readServer(key, value cursor, hasName bool) *Server {
	s := &Server{Alias: value.server, dialect: value.parser.dialect, file: value.parser.file, positions: map[string]position{"": {at: key.at}}}
	before := len(value.parser.errs)
	members := make(serverMembers)
	var unknown []member
	for m := range value.members("an object with a server") {
		name, known := serverKeys[m.name]
		switch other, twice := members[name]; {
		case hasName && m.name == "name":
		case !known, m.name == "tools" && m.kind() != jsonscan.Array, m.name == "source" && !s.dialect.plugins: // tools of Codex are settings
			unknown = append(unknown, m)
		case m.kind() == jsonscan.Null:
		case twice:
			m.key.fail("%q means the same as %q: expected one of them", m.name, other.name)
		default:
			members[name] = m
			s.positions[name] = position{m.field, m.at}
		}
	}
	members.program(s)
	members.fields(s)
	for _, m := range unknown {
		m.keep(&s.Extra, maps.Keys(serverKeys))
	}
	members.options(s)
	if len(value.parser.errs) == before {
		members.resolveType(s, key)
		members.checkAuth(s)
	}
	return s
}

// fields reads the members that other hosts also have.
func (g serverMembers) fields(s *Server) {
	s.Type = g["type"].transport()
	if command := g["command"]; command.kind() == jsonscan.Array { // OpenCode
		words := slices.Collect(command.elements("an array of strings"))
		if len(words) == 0 {
			command.fail("expected a program and its arguments")
			return
		}
		s.Command = words[0].text()
		s.args(slices.Values(words[1:]))
	} else {
		s.Command = command.text()
	}
	s.args(g["args"].elements("an array of strings"))
	s.Env = s.table("env", g["env"], "an object with variables", checkVariable)
	s.EnvFile = g["envFile"].text()
	s.Dir = g["cwd"].text()
	s.URL = g["url"].text()
	s.Headers = s.table("headers", g["headers"], "an object with headers", checkHeader)
	g.headersFromEnv(s)
	if m, ok := g["oauth"]; ok && m.kind() != jsonscan.Bool { // false in files of OpenCode
		s.OAuth = &OAuth{}
		m.oauth(s)
	}
	if m, ok := g["disabled"]; ok {
		s.Disabled = m.flag() == (m.name == "disabled")
	}
}

func (s *Server) args(words iter.Seq[cursor]) {
	for word := range words {
		s.positions[fmt.Sprintf("args[%d]", len(s.Args))] = position{word.field, word.at}
		s.Args = append(s.Args, word.text())
	}
}

// program replaces a command that is an object with path, args and env, an old form of Zed, by these.
func (g serverMembers) program(s *Server) {
	command := g["command"]
	if command.kind() != jsonscan.Object {
		return
	}
	delete(g, "command")
	for m := range command.members("an object with a program") {
		name, known := map[string]string{"path": "command", "args": "args", "env": "env"}[m.name]
		_, twice := g[name]
		switch {
		case !known:
			m.key.fail("expected path, args or env")
		case m.kind() == jsonscan.Null:
		case twice:
			m.key.fail("%q is given twice: expected one of them", name)
		default:
			g[name], s.positions[name] = m, position{m.field, m.at}
		}
	}
}

// headersFromEnv adds the headers whose values Codex takes from environment variables.
func (g serverMembers) headersFromEnv(s *Server) {
	add := func(header, value string, m member) {
		variable := m.text()
		switch {
		case m.kind() != jsonscan.String:
			return
		case !isName(variable):
			m.fail("expected the name of an environment variable")
			return
		}
		for other := range s.Headers {
			if strings.EqualFold(other, header) {
				m.fail("a second header of the name %s", header)
				return
			}
		}
		if s.Headers == nil {
			s.Headers = make(map[string]string)
		}
		s.Headers[header] = value + "${" + variable + "}"
		s.positions["headers."+header] = position{m.field, m.at}
		s.readsEnv = true
	}
	if m, ok := g["token"]; ok {
		add("Authorization", "Bearer ", m)
	}
	if headers, ok := g["envHeaders"]; ok {
		for m := range headers.members("an object with the names of environment variables") {
			if wrong := checkHeader(m.name); wrong != "" {
				m.key.fail("%s", wrong)
			} else {
				add(m.name, "", m)
			}
		}
	}
}

// variables reads the names of environment variables that Codex passes on: strings, or objects with a name and a source.
func (c cursor) variables() []string {
	return list(c, "an array with the names of environment variables", func(element cursor) string {
		if element.kind() != jsonscan.Object {
			name := element.text()
			if wrong := checkVariable(name); wrong != "" && element.kind() == jsonscan.String {
				element.fail("%s", wrong)
			}
			return name
		}
		name, source := "", ""
		element.strict("an object with name and source", into("name", &name, cursor.text), into("source", &source, cursor.text))
		if wrong := checkVariable(name); wrong != "" {
			element.fail("%s", wrong)
		}
		if source != "" && source != "local" {
			element.fail("expected the source local: only variables of this machine can be passed on")
		}
		return name
	})
}

// oauth reads the registration of a server.
func (c cursor) oauth(s *Server) {
	o := s.OAuth
	c.object("an object with clientId", func(m member) {
		if !m.misspells(slices.Values([]string{"clientId", "clientSecret", "issuer", "callbackPort", "scopes", "scope"})) {
			m.key.warn("is unknown and has no effect")
		}
	}, memberReader{"clientId", func(c cursor) {
		s.positions["oauth.clientId"] = position{c.field, c.at}
		o.ClientID = c.text()
	}}, memberReader{"clientSecret", func(c cursor) {
		s.positions["oauth.clientSecret"] = position{c.field, c.at}
		o.ClientSecret = c.text()
	}}, memberReader{"issuer", func(c cursor) {
		s.positions["oauth.issuer"] = position{c.field, c.at}
		o.Issuer = c.text()
	}}, memberReader{"callbackPort", func(c cursor) {
		if o.CallbackPort = c.count(); o.CallbackPort > math.MaxUint16 {
			c.fail("expected a port, at most %d", math.MaxUint16)
		}
	}}, memberReader{"scopes", func(c cursor) {
		for scope := range c.elements("an array of strings") {
			s.scope(scope)
		}
	}}, memberReader{"scope", s.scope}) // OpenCode
}

// scope adds scopes of one text.
func (s *Server) scope(c cursor) {
	if scope := c.text(); scope != "" {
		s.positions[fmt.Sprintf("oauth.scopes[%d]", len(s.OAuth.Scopes))] = position{c.field, c.at}
		s.OAuth.Scopes = append(s.OAuth.Scopes, scope)
	}
}

// options reads the settings under "dovetail", and the equivalent members of other hosts, which
// have lower precedence.
func (g serverMembers) options(s *Server) {
	o := &s.Options
	g["dovetail"].options(o)
	o.CallTimeout = cmp.Or(o.CallTimeout, g.timeout(s), g["callSeconds"].number(time.Second))
	o.StartTimeout = cmp.Or(o.StartTimeout, g["startSeconds"].number(time.Second), g["startMillis"].number(time.Millisecond))
	if m, ok := g["passEnv"]; ok {
		o.PassEnv = append(m.variables(), o.PassEnv...)
	}
	allow := g["allow"].texts()
	if m, ok := g["allow"]; ok && len(allow) == 0 {
		m.warn("is empty and allows all tools")
	}
	if o.Tools.Allow == nil {
		o.Tools.Allow = allow
	}
	o.Tools.Deny = append(g["deny"].texts(), o.Tools.Deny...)
}

// timeout reads the timeout of a call.
func (g serverMembers) timeout(s *Server) time.Duration {
	m, ok := g["timeout"]
	switch {
	case !ok:
		return 0
	case s.dialect.timeout == 0:
		m.key.warn("has no effect: it does not limit calls")
		return 0
	case s.dialect.timeout != time.Millisecond && m.kind() == jsonscan.Number:
		return m.number(s.dialect.timeout)
	}
	timeout := m.duration()
	if m.kind() == jsonscan.Number && 0 < timeout && timeout < shortTimeout {
		m.fail(`a number is milliseconds, and %s is %v: expected at least 1000, or a unit such as "%ss"`, m.raw, timeout, m.raw)
	}
	return timeout
}

// table reads an object of strings. check describes an error in a name, or returns "".
func (s *Server) table(field string, m member, expected string, check func(name string) string) map[string]string {
	if m.raw == nil {
		return nil
	}
	table := make(map[string]string)
	folded := make(map[string]bool)
	for entry := range m.members(expected) {
		if wrong := check(entry.name); wrong != "" {
			entry.key.fail("%s", wrong)
			continue
		}
		if lower := strings.ToLower(entry.name); field == "headers" {
			if folded[lower] {
				entry.key.fail("a second header of this name: names are not case-sensitive")
			}
			folded[lower] = true
		}
		s.positions[field+"."+entry.name] = position{entry.field, entry.at}
		switch entry.kind() {
		case jsonscan.Number, jsonscan.Bool:
			table[entry.name] = string(entry.raw)
		case jsonscan.Null:
			entry.warn("is null and has no effect")
		default:
			table[entry.name] = entry.text()
		}
	}
	return table
}

// checkVariable describes an error in the name of an environment variable, or returns "".
func checkVariable(name string) string {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return "expected the name of a variable, without ="
	}
	return ""
}

// checkHeader describes an error in the name of a header (RFC 9110, section 5.1), or returns "".
func checkHeader(name string) string {
	isNoToken := func(r rune) bool { return !isWord(r) && !strings.ContainsRune("!#$%&'*+-.^`|~", r) }
	if name == "" || strings.ContainsFunc(name, isNoToken) {
		return "expected the name of a header"
	}
	return ""
}

// transport reads a type in any of the spellings that hosts use.
func (c cursor) transport() string {
	text := c.text()
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(text)) {
	case "stdio", "local":
		return typeStdio
	case "http", "streamable", "streamablehttp":
		return typeHTTP
	case "sse":
		return typeSSE
	case "ws", "websocket":
		return typeWebSocket
	case "remote":
		return "" // the URL decides
	}
	if c.kind() == jsonscan.String {
		c.fail("expected stdio, http (or streamable-http), sse or ws, found %s", jsonscan.Quote(text))
	}
	return ""
}

// resolveType sets the type if the file has none, and warns of members that the type does not
// use.
func (g serverMembers) resolveType(s *Server, key cursor) {
	switch {
	case s.Type == typeStdio && s.Command == "":
		key.fail(`expected "command": its type is stdio`)
	case s.Type != "" && s.Type != typeStdio && s.URL == "":
		key.fail(`expected "url": its type is %s`, s.Type)
	case s.Type != "":
	case s.Command != "" && s.URL != "":
		key.fail(`expected "command" or "url", found both: "type" can decide`)
	case s.Command != "":
		s.Type = typeStdio
	case s.URL == "":
		key.fail(`expected "command" or "url"`)
	case g["url"].name == "httpUrl":
		s.Type = typeHTTP
	default:
		s.Type, s.guessed = typeOf(s.URL), true
	}
	unused := []string{"command", "args", "env", "envFile", "cwd", "passEnv"}
	if s.Type == typeStdio {
		unused = []string{"url", "headers", "token", "envHeaders", "oauth"}
	}
	for _, name := range unused {
		if m, ok := g[name]; ok {
			m.key.warn("has no effect: the server's type is %s", s.Type)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

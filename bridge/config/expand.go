package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Expand replaces the variables of a server, reads its file of environment variables, and
// checks the command or URL. A nil e means the zero Expander. The error joins an *[Error] for
// each variable without a value and each other mistake; it wraps errors of e's functions.
// Disabled servers are expanded, too.
func (s *Server) Expand(ctx context.Context, e *Expander) (*Resolved, error) {
	if e == nil {
		e = &Expander{}
	}
	x := &expansion{ctx: ctx, expander: e, server: s, left: maxExpanded}
	r := &Resolved{Alias: s.Alias, Type: s.Type, Options: s.Options}
	switch s.Type {
	case typeStdio:
		x.command(r)
	case typeHTTP, typeSSE, typeWebSocket:
		x.remote(r)
	default:
		x.fail("", "expected the type stdio, http, sse or ws", nil)
	}
	if x.left < 0 {
		x.fail("", "expected at most 1 MiB for all texts of a server, after expansion", nil)
	}
	if err := errors.Join(x.errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// An expansion is the expansion of one server.
type expansion struct {
	ctx      context.Context
	expander *Expander
	server   *Server
	left     int // bytes that the other texts may still have
	errs     []error
}

func (x *expansion) fail(field, message string, cause error) {
	if len(x.errs) == maxReports {
		return
	}
	at, known := x.server.positions[field]
	if !known {
		at = x.server.positions[""]
	}
	x.errs = append(x.errs, x.server.file.newError(at.at, x.server.Alias, cmp.Or(at.field, field), message, cause))
}

// text expands one field. shown is the text to print instead of value.
func (x *expansion) text(field, text string) (value, shown string) {
	var v, s strings.Builder
	write := func(value, shown string) {
		if x.left -= len(value); x.left >= 0 {
			v.WriteString(value)
			s.WriteString(shown)
		}
	}
	if x.expander.NoExpand {
		write(text, text)
		text = ""
	}
	if !isForShell(field) && strings.Contains(" "+text, " $(") {
		x.fail(field, "commands are not run: expected a text without $(", nil)
		text = ""
	}
	whole := text
	for text != "" && x.left >= 0 {
		next := strings.IndexAny(text, "${")
		if next < 0 {
			next = len(text)
		}
		write(text[:next], text[:next])
		text = text[next:]
		named, length := x.server.dialect.variable(field, whole, len(whole)-len(text))
		switch after, braced := strings.CutPrefix(text, "${"); {
		case text == "":
		case strings.HasPrefix(text, "$${"):
			write("${", "${")
			text = text[len("$${"):]
		case length > 0:
			write(x.value(field, named), text[:length])
			text = text[length:]
		case braced:
			text = after
			inside, _, nested := strings.Cut(after, "${") // variables cannot be nested
			body, _, closed := strings.Cut(inside, "}")
			named, ok := parseVariable(body)
			switch {
			case ok && closed:
				text = after[len(body)+1:]
				write(x.value(field, named), named.String())
			case nested && !closed && ok && named.hasDefault:
				x.fail(field, "the default of "+named.String()+" contains a variable: expected a text", nil)
			case nested && !closed && isScheme(named.scheme):
				x.fail(field, named.String()+" contains a variable: expected a name", nil)
			case !isForShell(field), closed && hasScheme(body):
				x.fail(field, "after ${, expected the name of a variable and }: the text ${ is written $${", nil)
			default:
				write("${", "${")
			}
		default:
			write(text[:1], text[:1])
			text = text[1:]
		}
	}
	switch value = v.String(); {
	case len(value) > maxValue:
		x.fail(field, fmt.Sprintf("expected at most %d bytes after expansion", maxValue), nil)
	case strings.IndexByte(value, 0) >= 0:
		x.fail(field, "expected a text without NUL", nil)
	}
	return value, s.String()
}

// value returns the value or default of a variable.
func (x *expansion) value(field string, v variable) string {
	text, ok, err := x.lookup(v)
	switch {
	case err != nil:
		x.fail(field, v.String(), err)
		return ""
	case v.hasDefault && text == "":
		return v.defaultValue
	case !ok:
		x.fail(field, v.String()+" has no value and no default", nil)
	}
	return text
}

// secret expands a field that may be printed with its variables unexpanded.
func (x *expansion) secret(field, text string) Secret {
	return NewSecret(x.text(field, text))
}

// words expands a field of words that may be printed with their variables unexpanded.
func (x *expansion) words(field, text string) (words []Secret) {
	value, shown := x.text(field, text)
	values, shownWords := strings.Fields(value), strings.Fields(shown)
	for i, word := range values {
		if len(shownWords) == len(values) {
			shown = shownWords[i]
		}
		words = append(words, NewSecret(word, shown)) // a value of several words has the whole text
	}
	return words
}

// table expands values that must not be printed.
func (x *expansion) table(field string, texts map[string]string, into map[string]Secret) {
	for _, name := range sortedKeys(texts) {
		value, _ := x.text(field+"."+name, texts[name])
		into[name] = NewSecret(value, redacted)
	}
}

// command expands a server that runs as a child process.
func (x *expansion) command(r *Resolved) {
	s := x.server
	r.Command = x.secret("command", s.Command)
	if len(x.errs) == 0 && r.Command.Reveal() == "" {
		x.fail("command", "expected a command, but it is empty after expansion", nil)
	}
	for i, arg := range s.Args {
		r.Args = append(r.Args, x.secret(fmt.Sprintf("args[%d]", i), arg))
	}
	r.Env = make(map[string]Secret)
	if o := s.Options; x.expander.NoExpand && (s.EnvFile != "" || o.InheritEnv || len(o.PassEnv) > 0) {
		x.fail("env", "expected no envFile, passEnv or inheritEnv: environment variables of this machine are not available", nil)
		return
	}
	for _, name := range s.Options.PassEnv {
		if value, ok := x.lookupEnv(name); ok {
			r.Env[name] = NewSecret(value, redacted)
		}
	}
	if s.EnvFile != "" {
		x.envFile(r.Env)
	}
	x.table("env", s.Env, r.Env)
	if s.Dir != "" {
		dir, shown := x.text("cwd", s.Dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(x.workspace(), dir)
		}
		r.Dir = NewSecret(dir, shown)
	}
}

// maxEnvFile is the size of the largest file of environment variables, in bytes.
const maxEnvFile = 256 << 10

// envFile reads the file of environment variables, whose values are not expanded.
func (x *expansion) envFile(into map[string]Secret) {
	failed := len(x.errs)
	path, shown := x.text("envFile", x.server.EnvFile)
	if len(x.errs) > failed {
		return
	}
	data, err := readFile(x.inFolder(path), maxEnvFile)
	if err != nil {
		x.fail("envFile", "reading "+shown, err)
		return
	}
	variables, err := parseEnvFile(data)
	if err != nil {
		x.fail("envFile", shown, err)
	}
	for name, value := range variables {
		into[name] = NewSecret(value, redacted)
	}
}

// remote expands a server that has a URL.
func (x *expansion) remote(r *Resolved) {
	failed := len(x.errs)
	text, shown := x.text("url", x.server.URL)
	if x.server.guessed {
		r.Type = typeOf(text)
	}
	u, err := url.Parse(text)
	if len(x.errs) == failed {
		isHTTP := err == nil && (u.Scheme == "http" || u.Scheme == "https")
		isWS := err == nil && (u.Scheme == "ws" || u.Scheme == "wss")
		switch {
		case err == nil && u.Host != "" && (isHTTP || isWS && r.Type == typeWebSocket):
		case r.Type == typeWebSocket:
			x.fail("url", "expected a URL with ws://, wss://, http:// or https://, and a host", nil)
		default:
			x.fail("url", "expected a URL with http:// or https://, and a host", nil)
		}
	}
	if err == nil {
		r.URL = NewSecret(text, shownURL(u, text, shown))
	}
	if o := x.server.OAuth; o != nil {
		r.ClientID = x.secret("oauth.clientId", o.ClientID)
		secret, _ := x.text("oauth.clientSecret", o.ClientSecret)
		if secret != "" {
			r.ClientSecret = NewSecret(secret, redacted)
		}
		r.Issuer = x.secret("oauth.issuer", o.Issuer)
		r.CallbackPort = o.CallbackPort
		for i, text := range o.Scopes {
			r.Scopes = append(r.Scopes, x.words(fmt.Sprintf("oauth.scopes[%d]", i), text)...)
		}
	}
	r.Headers = make(map[string]Secret)
	if x.expander.NoExpand && x.server.readsEnv {
		x.fail("headers", "expected no header from an environment variable: environment variables of this machine are not available", nil)
	}
	x.table("headers", x.server.Headers, r.Headers)
	for _, name := range sortedKeys(r.Headers) {
		if strings.ContainsFunc(r.Headers[name].Reveal(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7F }) {
			x.fail("headers."+name, "expected a value without control characters", nil)
		}
	}
}

// shownURL returns the URL to print: without user, password, query and fragment, which may contain secrets. If a value
// or the name of a variable contains a separator of these parts, the places of the parts in shown are unknown and the
// whole URL is redacted.
func shownURL(u *url.URL, text, shown string) string {
	if u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return shown
	}
	for _, separator := range []string{"://", "/", "?", "#", "@"} {
		if strings.Count(shown, separator) != strings.Count(text, separator) {
			return redacted
		}
	}
	if i := strings.IndexAny(shown, "?#"); i >= 0 {
		shown = shown[:i+1] + redacted
	}
	scheme, rest, _ := strings.Cut(shown, "://")
	authority, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return scheme + "://" + redacted + rest[at:]
	}
	return shown
}

// parseEnvFile reads lines of the form NAME=value or export NAME=value. The last line with a
// name counts. Errors contain the number of the line and no values.
func parseEnvFile(data []byte) (map[string]string, error) {
	variables := make(map[string]string)
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\uFEFF")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !found || checkVariable(name) != "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("line %d: expected NAME=value", number)
		}
		value, ok := unquoteEnv(value)
		if !ok {
			return nil, fmt.Errorf("line %d: expected a closing quote", number)
		}
		if strings.IndexByte(value, 0) >= 0 {
			return nil, fmt.Errorf("line %d: expected a value without NUL", number)
		}
		variables[name] = value
	}
	return variables, nil
}

// unquoteEnv returns the value of a line without quotes and comment. ok is false if a quote is
// not closed.
func unquoteEnv(raw string) (value string, ok bool) {
	text := strings.TrimSpace(raw)
	if text == "" {
		return "", true
	}
	switch quote := text[0]; quote {
	case '\'':
		value, rest, closed := strings.Cut(text[1:], "'")
		return value, closed && isComment(rest)
	case '"':
		end := stringEnd([]byte(text))
		if end == 0 || !isComment(text[end:]) {
			return "", false
		}
		return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`).Replace(text[1 : end-1]), true
	}
	for i := 1; i < len(raw); i++ {
		if raw[i] == '#' && (raw[i-1] == ' ' || raw[i-1] == '\t') {
			return strings.TrimSpace(raw[:i]), true
		}
	}
	return text, true
}

func isComment(rest string) bool {
	rest = strings.TrimSpace(rest)
	return rest == "" || rest[0] == '#'
}

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

// Expand puts values in place of the variables, in one pass, reads the file of
// variables, and checks that what comes out is a command or a URL. With nil e it
// does as with a zero Expander. The error tells all variables that have no value,
// and everything else that is wrong, each an *[Error]; an error of e's functions is
// in it. Whether the server is disabled does not matter.
func (s *Server) Expand(ctx context.Context, e *Expander) (*Resolved, error) {
	if e == nil {
		e = &Expander{}
	}
	x := &expansion{ctx: ctx, expander: e, server: s, left: MaxExpanded}
	r := &Resolved{Alias: s.Alias, Type: s.Type, Options: s.Options}
	switch s.Type {
	case Stdio:
		x.command(r)
	case HTTP, SSE, WebSocket:
		x.remote(r)
	default:
		x.fail("", "expected stdio, http, sse or ws as its type", nil)
	}
	if x.left < 0 {
		x.fail("", "the texts of a server may have 1 MiB together, once expanded", nil)
	}
	if err := errors.Join(x.errs...); err != nil {
		return nil, err
	}
	r.Unset = x.unset
	return r, nil
}

// An expansion is that of one server.
type expansion struct {
	ctx      context.Context
	expander *Expander
	server   *Server
	left     int // how many bytes all texts may still have
	unset    []string
	errs     []error
}

func (x *expansion) fail(field, message string, cause error) {
	if len(x.errs) == maxReports {
		return
	}
	at, known := x.server.places[field]
	if !known {
		at = x.server.places[""]
	}
	x.errs = append(x.errs, x.server.file.fail(at.at, x.server.Alias, cmp.Or(at.field, field), message, cause))
}

// text expands one field. The second text is what may be shown of the first.
func (x *expansion) text(field, text string) (value, shown string) {
	var v, s strings.Builder
	write := func(value, shown string) {
		if x.left -= len(value); x.left >= 0 {
			v.WriteString(value)
			s.WriteString(shown)
		}
	}
	if x.expander.Verbatim {
		write(text, text)
		text = ""
	}
	for found := true; found && x.left >= 0; {
		var before, after string
		before, after, found = strings.Cut(text, "${")
		text = after
		if escaped, ok := strings.CutSuffix(before, "$"); found && ok {
			write(escaped+"${", escaped+"${")
			continue
		}
		write(before, before)
		if !found {
			break
		}
		inside, _, nested := strings.Cut(after, "${") // no variable holds another
		body, _, closed := strings.Cut(inside, "}")
		named, ok := parseVariable(body)
		switch {
		case ok && closed:
			text = after[len(body)+1:]
			if replacement, ok := x.value(field, named); ok {
				write(replacement, named.String())
			} else if x.expander.Unset == UnsetLiteral {
				write("${"+body+"}", "${"+body+"}")
			}
		case nested && !closed && ok && named.hasDefault:
			x.fail(field, "the default of "+named.String()+" holds a variable: expected a text", nil)
		case nested && !closed && isScheme(named.scheme):
			x.fail(field, named.String()+" holds a variable: expected a name", nil)
		default:
			write("${", "${")
		}
	}
	switch value = v.String(); {
	case len(value) > MaxValue:
		x.fail(field, fmt.Sprintf("expected at most %d bytes once expanded", MaxValue), nil)
	case strings.IndexByte(value, 0) >= 0:
		x.fail(field, "expected a text without NUL", nil)
	}
	return value, s.String()
}

// value finds what to put in place of a variable; ok is false when that is for
// Expander.Unset to say.
func (x *expansion) value(field string, v variable) (text string, ok bool) {
	text, ok, err := x.lookup(v)
	switch {
	case err != nil:
		x.fail(field, v.String(), err)
		return "", true
	case v.hasDefault && text == "":
		return v.byDefault, true
	case ok:
		return text, true
	}
	if x.expander.Unset == UnsetFails {
		x.fail(field, v.String()+" has no value, and no default", nil)
		return "", true
	}
	x.unset = append(x.unset, field+": "+v.String())
	return "", false
}

// secret expands a field whose fixed parts may be shown.
func (x *expansion) secret(field, text string) Secret {
	return NewSecret(x.text(field, text))
}

// table expands values of which nothing may be shown.
func (x *expansion) table(field string, texts map[string]string, into map[string]Secret) {
	for _, name := range sortedKeys(texts) {
		value, _ := x.text(field+"."+name, texts[name])
		into[name] = NewSecret(value, redacted)
	}
}

// command expands a server that is a child process.
func (x *expansion) command(r *Resolved) {
	s := x.server
	r.Command = x.secret("command", s.Command)
	if len(x.errs) == 0 && r.Command.Reveal() == "" {
		x.fail("command", "expected a command, but it is empty once expanded", nil)
	}
	for i, arg := range s.Args {
		r.Args = append(r.Args, x.secret(fmt.Sprintf("args[%d]", i), arg))
	}
	r.Env = make(map[string]Secret)
	if o := s.Options; x.expander.Verbatim && (s.EnvFile != "" || o.InheritEnv || len(o.PassEnv) > 0) {
		x.fail("env", "expected all variables to stand there: nothing is taken from this machine", nil)
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

// envFile reads the file of variables. What stands in it is not expanded.
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
		case err == nil && u.Host != "" && (isHTTP || isWS && r.Type == WebSocket):
		case r.Type == WebSocket:
			x.fail("url", "expected a URL that begins with ws://, wss://, http:// or https://, and a host", nil)
		default:
			x.fail("url", "expected a URL that begins with http:// or https://, and a host", nil)
		}
	}
	if err == nil {
		r.URL = NewSecret(text, shownURL(u, text, shown))
	}
	r.Headers = make(map[string]Secret)
	x.table("headers", x.server.Headers, r.Headers)
	for _, name := range sortedKeys(r.Headers) {
		if strings.ContainsFunc(r.Headers[name].Reveal(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7F }) {
			x.fail("headers."+name, "expected a value without control characters", nil)
		}
	}
}

// shownURL hides where a URL may hold secrets: user, password, query and fragment. They
// are where they are in the expanded URL only if no variable brings in, or has in its name,
// what separates them; otherwise nothing is shown.
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

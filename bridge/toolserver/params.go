package toolserver

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// ServerParams describe how a [Server] launches a server: a Command, or a URL. Nothing in them
// is expanded: ${NAME} is that text. The zero value means a server of the operator's.
//
// Formatting them redacts the values of variables and headers.
type ServerParams struct {
	// Command is the program, Args its arguments, Env its environment, in addition to the few
	// variables that programs need, and Dir its working directory, by default the tool server's.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"`
	// URL is the address of a remote server, and Headers are those of each request.
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Type is the transport for a URL: "streamable_http", also written with a hyphen or as
	// "http", "sse", or "ws". It may be empty if the last segment of the URL's path is mcp or
	// sse.
	Type string `json:"type,omitempty"`
}

// Format prints how the server is launched, without secrets.
func (p ServerParams) Format(f fmt.State, _ rune) {
	server, err := p.resolve("")
	if err != nil {
		_, _ = fmt.Fprintf(f, "server params that are none: %v", err)
		return
	}
	_, _ = fmt.Fprint(f, server.Launch())
}

// isZero says whether they stand for a known server.
func (p *ServerParams) isZero() bool {
	return p.Command == "" && len(p.Args) == 0 && len(p.Env) == 0 && p.Dir == "" &&
		p.URL == "" && len(p.Headers) == 0 && p.Type == ""
}

// redacted replaces a secret.
const redacted = "[redacted]"

// resolve checks the params. The error says what was expected, and tells no values.
func (p *ServerParams) resolve(name string) (*config.Resolved, error) {
	r := &config.Resolved{Alias: name}
	switch {
	case p.Command != "" && p.URL != "":
		return nil, fmt.Errorf(`expected "command" or "url", found both`)
	case p.Command == "" && p.URL == "":
		return nil, fmt.Errorf(`expected "command" or "url"`)
	case p.Command != "":
		return r, p.command(r)
	default:
		return r, p.remote(r)
	}
}

func (p *ServerParams) command(r *config.Resolved) error {
	switch {
	case p.Type != "" && p.Type != "stdio":
		return fmt.Errorf(`expected "url": the type is not stdio`)
	case len(p.Headers) > 0:
		return fmt.Errorf(`expected "headers" with "url" only`)
	}
	for _, value := range append([]string{p.Command, p.Dir}, p.Args...) {
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("expected texts without NUL")
		}
	}
	r.Type, r.Command = config.Stdio, asIs(p.Command)
	if p.Dir != "" {
		r.Dir = asIs(p.Dir)
	}
	for _, arg := range p.Args {
		r.Args = append(r.Args, asIs(arg))
	}
	r.Env = make(map[string]config.Secret, len(p.Env))
	for variable, value := range p.Env {
		if variable == "" || strings.ContainsAny(variable, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: expected names without =, and texts without NUL")
		}
		r.Env[variable] = config.NewSecret(value, redacted)
	}
	return nil
}

// asIs is a text that approvers must see.
func asIs(text string) config.Secret { return config.NewSecret(text, text) }

func (p *ServerParams) remote(r *config.Resolved) (err error) {
	switch {
	case len(p.Args) > 0 || len(p.Env) > 0 || p.Dir != "":
		return fmt.Errorf(`expected "args", "env" and "cwd" with "command" only`)
	case strings.ContainsFunc(p.URL, isControl):
		return fmt.Errorf("url: expected no control characters")
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" {
		return fmt.Errorf("url: expected a URL with a scheme and a host")
	}
	if r.Type, err = p.transport(u); err != nil {
		return err
	}
	isWeb := u.Scheme == "http" || u.Scheme == "https"
	if isSocket := u.Scheme == "ws" || u.Scheme == "wss"; !isWeb && (r.Type != config.WebSocket || !isSocket) {
		return fmt.Errorf("url: expected one that begins with http:// or https://")
	}
	r.URL = config.NewSecret(p.URL, shownURL(u))
	r.Headers = make(map[string]config.Secret, len(p.Headers))
	folded := make(map[string]bool, len(p.Headers))
	for header, value := range p.Headers {
		if !isHeaderName(header) || folded[strings.ToLower(header)] || strings.ContainsFunc(value, isControl) {
			return fmt.Errorf("headers: expected names of headers, each once, and values without control characters")
		}
		folded[strings.ToLower(header)] = true
		r.Headers[header] = config.NewSecret(value, redacted)
	}
	return nil
}

// transport returns the transport of a server: that of Type, or else that of the URL.
func (p *ServerParams) transport(u *url.URL) (config.Type, error) {
	switch p.Type {
	case "streamable_http", "streamable-http", "streamableHttp", "http":
		return config.HTTP, nil
	case "sse":
		return config.SSE, nil
	case "ws", "websocket":
		return config.WebSocket, nil
	case "":
	default:
		return "", fmt.Errorf("type: expected streamable_http, sse or ws for a server at a URL, found %s", jsonscan.Quote(frontend.Cut(p.Type)))
	}
	switch path.Base(u.Path) {
	case "mcp":
		return config.HTTP, nil
	case "sse":
		return config.SSE, nil
	}
	return "", fmt.Errorf(`expected "type": streamable_http, sse or ws, since the URL's path ends with neither /mcp nor /sse`)
}

// shownURL is a URL without what may be secret in it.
func shownURL(u *url.URL) string {
	bare := *u
	bare.User, bare.RawQuery, bare.ForceQuery, bare.Fragment, bare.RawFragment = nil, "", false, "", ""
	text := bare.String()
	if u.User != nil {
		scheme, rest, _ := strings.Cut(text, "://")
		text = scheme + "://" + redacted + "@" + rest
	}
	if u.RawQuery != "" {
		text += "?" + redacted
	}
	if u.Fragment != "" {
		text += "#" + redacted
	}
	return text
}

// isControl says whether a character cannot stand in a header or URL. RFC 9110, section 5.5.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// isHeaderName says whether a text is a token. RFC 9110, section 5.6.2.
func isHeaderName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

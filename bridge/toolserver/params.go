package toolserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// ServerParams describe how a [Server] launches a server: with a Command, or at a URL.
// Variables such as ${NAME} are not expanded. The zero value means a server of the operator.
//
// Approvers are shown all values, and so are the readers of the journal of an approval. Logs and errors are not, and
// formatting redacts the values of variables and headers. The description for approvers has at most 16 KiB.
type ServerParams struct {
	// Command is the program and Args its arguments. Env is its environment, in addition to the few variables that
	// programs need. Dir is its working directory, by default the working directory of the tool server.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"`
	// URL is the address of a remote server, and Headers are sent with each request.
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Type is the transport for a URL: "streamable_http" (also with a hyphen, or "http"), "sse"
	// or "ws". It may be empty if the last segment of the URL's path is mcp or sse.
	Type string `json:"type,omitempty"`
}

// Format prints how the server is launched, without secrets.
func (p ServerParams) Format(f fmt.State, _ rune) {
	server, err := p.resolve("")
	if err != nil {
		_, _ = fmt.Fprintf(f, "invalid server params: %v", err)
		return
	}
	_, _ = fmt.Fprint(f, server.Launch())
}

// isZero reports whether the params mean a server of the operator.
func (p *ServerParams) isZero() bool {
	return p.Command == "" && len(p.Args) == 0 && len(p.Env) == 0 && p.Dir == "" &&
		p.URL == "" && len(p.Headers) == 0 && p.Type == ""
}

// redacted replaces a secret.
const redacted = "[redacted]"

// resolve checks the params. The error names the expected form, and contains no values.
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
	r.Type, r.Command = "stdio", asIs(p.Command)
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

// asIs returns a text that is shown to approvers.
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
	if isSocket := u.Scheme == "ws" || u.Scheme == "wss"; !isWeb && (r.Type != "ws" || !isSocket) {
		return fmt.Errorf("url: expected a URL that begins with http:// or https://")
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

// transport returns the transport of a remote server.
func (p *ServerParams) transport(u *url.URL) (string, error) {
	switch p.Type {
	case "streamable_http", "streamable-http", "streamableHttp", "http":
		return "http", nil
	case "sse":
		return "sse", nil
	case "ws", "websocket":
		return "ws", nil
	case "":
	default:
		return "", fmt.Errorf("type: expected streamable_http, sse or ws for a server at a URL, found %s", jsonscan.Quote(frontend.Truncate(p.Type)))
	}
	switch path.Base(u.Path) {
	case "mcp":
		return "http", nil
	case "sse":
		return "sse", nil
	}
	return "", fmt.Errorf(`expected "type": streamable_http, sse or ws, since the URL's path ends with neither /mcp nor /sse`)
}

// shownURL returns a URL without secrets.
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

// isControl reports whether a character is not allowed in headers and URLs. RFC 9110, section
// 5.5.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// isHeaderName reports whether a text is a token. RFC 9110, section 5.6.2.
func isHeaderName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

const (
	// maxParams is the maximum size of server_params, in bytes.
	maxParams = 64 << 10
	// maxLaunch is the maximum length of the description for approvers, in bytes. It is never truncated.
	maxLaunch = 16 << 10
	// maxTerms is the maximum number of arguments, variables or headers.
	maxTerms = 256
)

// paramNames lists the allowed members of server_params. Of the members after the first seven,
// which configure the transports of ipybox, only the type is checked.
var paramNames = []string{"command", "args", "env", "cwd", "url", "headers", "type", "encoding", "encoding_error_handler", "timeout", "sse_read_timeout"}

// parseParams reads server_params, an object or null. None, null and {} give nil. The error contains no values.
func parseParams(raw json.RawMessage) (*ServerParams, error) {
	switch {
	case raw == nil, jsonscan.KindOf(raw) == jsonscan.Null:
		return nil, nil
	case len(raw) > maxParams:
		return nil, fmt.Errorf("expected at most %d bytes", maxParams)
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil || members.Len() == 0 {
		return nil, err
	}
	for member := range members.All() {
		if name := member.Name(); !slices.Contains(paramNames, name) {
			return nil, fmt.Errorf("expected the members %s, found %s", strings.Join(paramNames, ", "), jsonscan.Quote(frontend.Truncate(name)))
		}
	}
	r := paramReader{members: members}
	p := &ServerParams{
		Command: r.text("command"), Args: r.texts("args"), Env: r.table("env"), Dir: r.text("cwd"),
		URL: r.text("url"), Headers: r.table("headers"), Type: r.text("type"),
	}
	if encoding := r.text("encoding"); encoding != "" && !strings.EqualFold(strings.ReplaceAll(encoding, "-", ""), "utf8") {
		r.fail("encoding", "expected utf-8")
	}
	r.text("encoding_error_handler")
	for _, name := range []string{"timeout", "sse_read_timeout"} {
		if value := members.Get(name); value != nil && jsonscan.KindOf(value) != jsonscan.Number && jsonscan.KindOf(value) != jsonscan.Null {
			r.fail(name, "expected a number")
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	server, err := p.resolve("")
	if err != nil {
		return nil, err
	}
	if text := newLaunch(server).text; len(text) > maxLaunch {
		return nil, fmt.Errorf("approvers are shown all of it, which takes %d bytes with escapes: expected at most %d; pass long values in tool_args or in files", len(text), maxLaunch)
	}
	return p, nil
}

// A paramReader reads members of an object, and keeps the first error.
type paramReader struct {
	members jsonscan.Members
	err     error
}

func (r *paramReader) fail(name, message string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", name, message)
	}
}

// value returns a member of a kind, nil if it is missing or null.
func (r *paramReader) value(name string, kind jsonscan.Kind) json.RawMessage {
	raw := r.members.Get(name)
	switch found := jsonscan.KindOf(raw); {
	case raw == nil, found == jsonscan.Null:
		return nil
	case found != kind:
		r.fail(name, fmt.Sprintf("expected %v, found %v", kind, found))
		return nil
	}
	return raw
}

func (r *paramReader) text(name string) string {
	if raw := r.value(name, jsonscan.String); raw != nil {
		return jsonscan.Unquote(raw)
	}
	return ""
}

func (r *paramReader) texts(name string) (texts []string) {
	raw := r.value(name, jsonscan.Array)
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &texts); err != nil || len(texts) > maxTerms {
		r.fail(name, fmt.Sprintf("expected at most %d strings", maxTerms))
	}
	return texts
}

func (r *paramReader) table(name string) map[string]string {
	raw := r.value(name, jsonscan.Object)
	if raw == nil {
		return nil
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil || members.Len() > maxTerms {
		r.fail(name, fmt.Sprintf("expected an object with at most %d members, none of them twice", maxTerms))
		return nil
	}
	table := make(map[string]string, members.Len())
	for member := range members.All() {
		if jsonscan.KindOf(member.Value) != jsonscan.String {
			r.fail(name, "expected strings")
			return nil
		}
		table[member.Name()] = jsonscan.Unquote(member.Value)
	}
	return table
}

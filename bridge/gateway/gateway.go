package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Gateway]. The zero value is valid. A limit of 0 means the default.
type Options struct {
	// States returns the states of the upstream servers, as [bridge.Bridge.States] does. By
	// default every server with tools is assumed to run.
	States func() []bridge.State
	// Authenticator accepts or rejects requests. By default it has one random token; see
	// [Gateway.Authenticator].
	Authenticator *Authenticator
	// CallTimeout limits a call, not counting the time that a person takes to approve it.
	// Default 5 minutes.
	CallTimeout time.Duration
	// Limits bounds the requests. Calls and CallsPerPrincipal count requests of any kind;
	// the limits of sessions and subscriptions have no effect.
	Limits transport.Limits
	// Logger logs errors whose cause callers do not get. Default slog.Default().
	Logger *slog.Logger
}

// A Gateway lets programs that do not speak MCP call the tools of a server. Its methods may be
// called concurrently.
type Gateway struct {
	servers       frontend.Servers
	frontend      *frontend.Frontend
	authenticator *Authenticator
}

// New returns a gateway to the tools of a server. Calls and lists pass through the server's
// middleware and guards. opts may be nil.
func New(s *server.Server, opts *Options) *Gateway {
	o := *cmp.Or(opts, new(Options))
	if o.Authenticator == nil {
		o.Authenticator, _ = NewAuthenticator(&AuthenticatorOptions{Logger: o.Logger}) // no option can be invalid
	}
	return &Gateway{
		servers:       frontend.Servers{Server: s, States: o.States},
		authenticator: o.Authenticator,
		frontend: frontend.New(frontend.Options{
			Authenticate: o.Authenticator.Handler, CallTimeout: o.CallTimeout, Limits: o.Limits, Logger: o.Logger,
		}),
	}
}

// Authenticator returns the authenticator of all handlers; see [Authenticator.Token].
func (g *Gateway) Authenticator() *Authenticator { return g.authenticator }

// Shutdown rejects new requests with the status 503 and waits until all others are answered. If
// ctx ends first, it returns its cause. The server must run until then. Shutdown may be called
// more than once.
func (g *Gateway) Shutdown(ctx context.Context) error { return g.frontend.Shutdown(ctx) }

// call calls a tool by its exposed name. arguments must be an object.
func (g *Gateway) call(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, *frontend.Failure) {
	return g.frontend.Serve(ctx, g.servers.Server, mcp.MethodToolsCall, frontend.ToolParams(tool, arguments))
}

// maxPages is the maximum number of pages of a list, in case of a cursor loop.
const maxPages = 10_000

// list returns the tools that the caller may see.
func (g *Gateway) list(ctx context.Context) (tools []tool, failed *frontend.Failure) {
	ctx, cancel := g.frontend.Timeout(ctx)
	defer cancel()
	var params json.RawMessage
	for range maxPages {
		result, failed := g.frontend.Serve(ctx, g.servers.Server, mcp.MethodToolsList, params)
		if failed != nil {
			return nil, failed
		}
		page, next, err := readTools(result)
		if err != nil {
			return nil, frontend.FailureOf(err)
		}
		tools = append(tools, page...)
		if next == nil {
			return tools, nil
		}
		params = append(append(json.RawMessage(`{"cursor":`), next...), '}')
	}
	return nil, frontend.FailureOf(errors.New("the list of tools has too many pages"))
}

// A tool is an entry of a list of tools.
type tool struct {
	name   string
	raw    json.RawMessage
	listed jsonscan.Members
}

func newTool(entry json.RawMessage) (t tool, ok bool) {
	listed, err := jsonscan.ReadObject(entry)
	name := listed.Get("name")
	if err != nil || jsonscan.KindOf(name) != jsonscan.String {
		return tool{}, false
	}
	return tool{jsonscan.Unquote(name), entry, listed}, true
}

// readTools reads a page of a list of tools, and the cursor of the next page. It omits tools
// without a name.
func readTools(result json.RawMessage) (tools []tool, next json.RawMessage, err error) {
	members, err := jsonscan.ReadObject(result)
	if err != nil {
		return nil, nil, err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(members.Get("tools"), &entries); err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		if t, ok := newTool(entry); ok {
			tools = append(tools, t)
		}
	}
	if next = members.Get("nextCursor"); jsonscan.KindOf(next) != jsonscan.String {
		next = nil
	}
	return tools, next, nil
}

// member returns a member of the entry, or a default value.
func (t *tool) member(name, defaultValue string) json.RawMessage {
	if value := t.listed.Get(name); value != nil {
		return value
	}
	return json.RawMessage(defaultValue)
}

// text returns a string member, or "".
func (t *tool) text(name string) string {
	if raw := t.listed.Get(name); jsonscan.KindOf(raw) == jsonscan.String {
		return jsonscan.Unquote(raw)
	}
	return ""
}

// output returns the output schema of the tool, or nil.
func (t *tool) output() json.RawMessage {
	if schema := t.listed.Get("outputSchema"); jsonscan.KindOf(schema) == jsonscan.Object {
		return schema
	}
	return nil
}

// needsArguments reports whether the tool has a required argument.
func (t *tool) needsArguments() bool {
	var schema struct{ Required []json.RawMessage }
	return json.Unmarshal(t.listed.Get("inputSchema"), &schema) == nil && len(schema.Required) > 0
}

// maxSegments is the maximum number of segments of a path.
const maxSegments = 16

// segments returns the decoded segments of a request's path. It returns none for a path that no
// route has: one with empty segments, with "." or "..", or with invalid UTF-8.
func segments(r *http.Request) []string {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if strings.Count(path, "/") >= maxSegments {
		return nil
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil || text == "" || text == "." || text == ".." || !utf8.ValidString(text) {
			return nil
		}
		parts[i] = text
	}
	return parts
}

// A toolResult is a CallToolResult. Its members are raw JSON.
type toolResult struct {
	whole, content, structured json.RawMessage
	isError                    bool
	texts                      [][]byte // raw JSON strings
}

// readToolResult reads a CallToolResult. It ignores invalid content blocks.
func readToolResult(result json.RawMessage) (*toolResult, *frontend.Failure) {
	members, err := jsonscan.ReadObject(result)
	if err != nil {
		return nil, frontend.MalformedResult
	}
	r := &toolResult{
		whole: result, content: members.Get("content"), structured: members.Get("structuredContent"),
		isError: string(members.Get("isError")) == "true",
	}
	if r.content == nil {
		r.content = json.RawMessage("[]")
	}
	var blocks []json.RawMessage
	if jsonscan.KindOf(r.content) != jsonscan.Array || json.Unmarshal(r.content, &blocks) != nil {
		return nil, frontend.MalformedResult
	}
	for _, raw := range blocks {
		block, err := jsonscan.ReadObject(raw)
		kind, text := block.Get("type"), block.Get("text")
		isText := err == nil && jsonscan.KindOf(kind) == jsonscan.String && jsonscan.KeyIs(kind, "text")
		if isText && jsonscan.KindOf(text) == jsonscan.String {
			r.texts = append(r.texts, text)
		}
	}
	return r, nil
}

// text returns the text blocks, joined by line breaks, as a raw JSON string, or nil if there
// are none.
func (r *toolResult) text() json.RawMessage {
	if len(r.texts) == 0 {
		return nil
	}
	joined := []byte{'"'}
	for i, raw := range r.texts {
		if i > 0 {
			joined = append(joined, `\n`...)
		}
		joined = append(joined, raw[1:len(raw)-1]...)
	}
	return append(joined, '"')
}

// A reduction converts a result into one JSON value.
type reduction func(r *toolResult) json.RawMessage

// reductions maps the values of the parameter result. nil means the default.
var reductions = map[string]reduction{"": nil, "text": reduceText, "structured": reduceStructured, "full": reduceNothing}

func reduceText(r *toolResult) json.RawMessage {
	if text := r.text(); text != nil {
		return text
	}
	return r.content
}

func reduceStructured(r *toolResult) json.RawMessage {
	if r.structured != nil {
		return r.structured
	}
	return reduceText(r)
}

func reduceNothing(r *toolResult) json.RawMessage { return r.whole }

// proxied returns the response of the proxy.
func (r *toolResult) proxied(reduce reduction) []byte {
	out := strconv.AppendBool([]byte(`{"success":`), !r.isError)
	out = append(append(out, `,"result":`...), reduce(r)...)
	out = append(out, `,"error":`...)
	switch text := reduceText(r); {
	case !r.isError:
		out = append(out, "null"...)
	case jsonscan.KindOf(text) == jsonscan.String:
		out = append(out, text...)
	default:
		out = jsonscan.AppendString(out, string(bytes.TrimSpace(text)))
	}
	return append(strconv.AppendBool(append(out, `,"is_error":`...), r.isError), '}')
}

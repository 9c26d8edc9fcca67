package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Options configure a [Gateway]. The zero value is good. Of the limits, 0 means the default.
type Options struct {
	// States reports how the upstream servers are, as [bridge.Bridge.States] does. By default
	// there are those that have tools, and they run.
	States func() []bridge.State
	// Access admits requests. By default those that have the random token of
	// [Gateway.Access].
	Access *Access
	// CallTimeout bounds a call, not counting the time spent waiting for a person. Default
	// 5 minutes.
	CallTimeout time.Duration
	// MaxBody is the size of the longest body of a request, in bytes. Default 4 MiB.
	MaxBody int64
	// MaxRequests is the number of requests that are served at a time, and MaxPerCaller how
	// many of them may be of one principal: more are answered with status 503. Callers
	// without a principal count for MaxRequests only. Defaults 1024 and 256.
	MaxRequests, MaxPerCaller int
	// Logger takes errors that callers do not learn. Default slog.Default().
	Logger *slog.Logger
}

// A Gateway lets programs that do not speak MCP call the tools of a server. Its methods may
// be called concurrently.
type Gateway struct {
	servers  frontend.Servers
	frontend *frontend.Frontend
	access   *Access
}

// New returns a gateway to the tools of a server. Calls and lists pass the server's
// middleware and guards. opts may be nil.
func New(s *server.Server, opts *Options) *Gateway {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Access == nil {
		o.Access, _ = NewAccess(&AccessOptions{Logger: o.Logger}) // nothing in it could be wrong
	}
	return &Gateway{
		servers: frontend.Servers{Server: s, States: o.States},
		access:  o.Access,
		frontend: frontend.New(frontend.Options{
			Access: o.Access.Handler, CallTimeout: o.CallTimeout, MaxBody: o.MaxBody,
			MaxRequests: o.MaxRequests, MaxPerCaller: o.MaxPerCaller, Logger: o.Logger,
		}),
	}
}

// Access returns what admits requests; see [Access.Token].
func (g *Gateway) Access() *Access { return g.access }

// Shutdown rejects later requests, with status 503, and returns when those that are served
// have been answered, or with the cause of ctx when it ends. The server must run until then.
// It may be called more than once.
func (g *Gateway) Shutdown(ctx context.Context) error { return g.frontend.Shutdown(ctx) }

// call calls a tool by the name that callers over MCP have. arguments are an object.
func (g *Gateway) call(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, *frontend.Failure) {
	return g.frontend.Serve(ctx, g.servers.Server, mcp.MethodToolsCall, frontend.ToolParams(tool, arguments))
}

// maxPages bounds the pages of a list, so that a cursor that leads back ends.
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
	return nil, frontend.FailureOf(errors.New("a list without an end"))
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

// readTools reads a page of a list of tools; next is the cursor of the next one. Tools
// without a name are left out.
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

// member returns a member of the entry, or another value if there is none.
func (t *tool) member(name, otherwise string) json.RawMessage {
	if value := t.listed.Get(name); value != nil {
		return value
	}
	return json.RawMessage(otherwise)
}

// text returns a member that is a string, "" if there is none.
func (t *tool) text(name string) string {
	if raw := t.listed.Get(name); jsonscan.KindOf(raw) == jsonscan.String {
		return jsonscan.Unquote(raw)
	}
	return ""
}

// output returns the schema of the tool's structured content, nil if it declares none.
func (t *tool) output() json.RawMessage {
	if schema := t.listed.Get("outputSchema"); jsonscan.KindOf(schema) == jsonscan.Object {
		return schema
	}
	return nil
}

// needsArguments reports whether the tool has an argument that must be given.
func (t *tool) needsArguments() bool {
	var schema struct{ Required []json.RawMessage }
	return json.Unmarshal(t.listed.Get("inputSchema"), &schema) == nil && len(schema.Required) > 0
}

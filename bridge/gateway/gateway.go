package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/seats"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Gateway]. The zero value is good, and asks nobody and nothing whether
// a call may be made. Of the limits, 0 means the default.
type Options struct {
	// Around stands around every call and every list of tools, the first outermost: an
	// [Audit], a policy's enforcer, an approval gate.
	Around []mcp.Middleware
	// Access says who gets in. By default who has the random token of [Gateway.Access].
	Access *Access
	// CallTimeout bounds a call. Waiting for a person to approve it does not count. Default
	// [DefaultCallTimeout].
	CallTimeout time.Duration
	// MaxBody is the longest body of a request, in bytes. Default [DefaultMaxBody].
	MaxBody int64
	// MaxRequests is how many requests may be served at once, and MaxPerCaller how many of
	// them may be one principal's: more are answered with status 503. Callers without a
	// principal count for MaxRequests only. Defaults [DefaultMaxRequests] and
	// [DefaultMaxPerCaller].
	MaxRequests, MaxPerCaller int
	// Logger takes errors that callers are not told. Default slog.Default().
	Logger *slog.Logger
}

// A Gateway has tools called by programs that do not speak MCP. Its methods may be called
// concurrently.
type Gateway struct {
	directory *Directory
	opts      Options
	seats     *seats.Seats
	requests  *requests
	invoke    mcp.Handler
}

// New returns a gateway to what a directory has. The provider must run, as one that is
// mounted on a server does, or a bridge after its Start.
func New(d *Directory, opts *Options) *Gateway {
	g := &Gateway{directory: d, requests: newRequests()}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.Access == nil {
		g.opts.Access, _ = NewAccess(&AccessOptions{Logger: g.opts.Logger}) // nothing in it could be wrong
	}
	g.opts.CallTimeout = cmp.Or(g.opts.CallTimeout, DefaultCallTimeout)
	g.opts.MaxBody = cmp.Or(g.opts.MaxBody, DefaultMaxBody)
	g.opts.Logger = cmp.Or(g.opts.Logger, slog.Default())
	g.seats = seats.New(cmp.Or(g.opts.MaxRequests, DefaultMaxRequests), cmp.Or(g.opts.MaxPerCaller, DefaultMaxPerCaller))
	g.invoke = g.answer
	for _, around := range slices.Backward(g.opts.Around) {
		g.invoke = around(g.invoke)
	}
	return g
}

// Access says who gets in; see [Access.Token].
func (g *Gateway) Access() *Access { return g.opts.Access }

// face is a handler that is behind the access, and has a seat for each request until the
// gateway shuts down.
func (g *Gateway) face(refuse refuser, serve http.HandlerFunc) http.Handler {
	admitted := g.opts.Access.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t, ok := w.(*translated); ok {
			w = t.ResponseWriter
		}
		if !g.requests.begin() {
			refuse.turnAway(w, r, http.StatusServiceUnavailable, "the gateway is shutting down")
			return
		}
		defer g.requests.end()
		principal := transport.Principal(r.Context())
		if g.seats.Take(principal) != nil {
			w.Header().Set("Retry-After", "1")
			refuse.turnAway(w, r, http.StatusServiceUnavailable, "busy: too many requests are being served")
			return
		}
		defer g.seats.Leave(principal)
		serve(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted.ServeHTTP(&translated{ResponseWriter: w, refuse: refuse}, r)
	})
}

// body reads a request's body. If it is not ok, the request has been answered.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request, refuse refuser) (body []byte, ok bool) {
	return edge.ReadJSON(&translated{ResponseWriter: w, refuse: refuse}, r, g.opts.MaxBody)
}

// call calls a tool by the name that callers see. arguments are an object.
func (g *Gateway) call(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, *failure) {
	ctx, cancel := deadline.With(ctx, g.opts.CallTimeout, context.DeadlineExceeded)
	defer cancel()
	params := jsonscan.AppendString(append(make([]byte, 0, len(tool)+len(arguments)+32), `{"name":`...), tool)
	params = append(append(append(params, `,"arguments":`...), arguments...), '}')
	result, err := g.run(ctx, mcp.MethodToolsCall, params)
	if err == nil {
		return result, nil
	}
	failed := failureOf(err)
	switch {
	case failed.kind == kindInternal:
		failed.message += ", reference " + g.log("a call failed", "tool", cut(tool), "error", err)
	case (failed.kind == kindParams || failed.kind == kindNotAsked) && !g.directory.has(tool):
		failed = &failure{kindUnknown, http.StatusNotFound, "there is no tool " + jsonscan.Quote(tool), failed.wire}
	}
	return nil, failed
}

// list returns the entries of the tools that the caller may see.
func (g *Gateway) list(ctx context.Context) (tools []tool, failed *failure) {
	ctx, cancel := deadline.With(ctx, g.opts.CallTimeout, context.DeadlineExceeded)
	defer cancel()
	result, err := g.run(ctx, mcp.MethodToolsList, nil)
	if err == nil {
		tools, err = readTools(result)
	}
	if err != nil {
		failed = failureOf(err)
		if failed.kind == kindInternal {
			failed.message += ", reference " + g.log("the tools could not be listed", "error", err)
		}
		return nil, failed
	}
	return tools, nil
}

// run makes a call, within all that stands around it. A panic costs no more than the call.
func (g *Gateway) run(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, params)
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(request, &mcp.Caller{Principal: transport.Principal(ctx)}, nil)
	answer, err := g.invoke(ctx, &call)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil, context.Cause(ctx) // which tells a call that took too long from one that nobody wants any more
	case err != nil:
		return nil, err
	}
	if raw, ok := answer.(mcp.Raw); ok {
		return json.RawMessage(raw), nil
	}
	return answer.AppendJSON(nil)
}

// answer answers the calls that have passed all that stands around.
func (g *Gateway) answer(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	switch call.Method() {
	case mcp.MethodToolsList:
		list := []byte(`{"tools":[`)
		for e := range g.directory.provider.Catalog().All(mcp.KindTool) {
			if list[len(list)-1] != '[' {
				list = append(list, ',')
			}
			list = append(list, e.Definition.JSON()...)
		}
		return mcp.Raw(append(list, "]}"...)), nil
	case mcp.MethodToolsCall:
		_, name := subjectOf(call)
		if e, err := g.directory.find(mcp.KindTool, name); err == nil && e.pseudo != nil {
			return callFunc(ctx, e.pseudo, name, call.Member("arguments"))
		}
		return g.directory.server.Serve(ctx, call)
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found: " + jsonscan.Quote(call.Method())}
	}
}

// callFunc calls a tool of a pseudo-server. Its value is a result with that as structured
// content.
func callFunc(ctx context.Context, fn ToolFunc, name string, arguments json.RawMessage) (mcp.Result, error) {
	value, err := fn(ctx, name, arguments)
	if err != nil {
		if _, protocol := errors.AsType[*jsonrpc.Error](err); !protocol && ctx.Err() == nil {
			err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
		}
		return nil, err
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	if err := jsonscan.Valid(value); err != nil {
		return nil, fmt.Errorf("the function of the pseudo-server's tool %s returned what is no JSON: %w", jsonscan.Quote(name), err)
	}
	content := slices.Concat([]byte(`[{"type":"text","text":`), jsonscan.AppendString(nil, string(value)), []byte(`}]`))
	return mcp.Raw(slices.Concat([]byte(`{"content":`), content, []byte(`,"structuredContent":`), value, []byte{'}'})), nil
}

// log tells the operator what callers are not told, under a reference that they are.
func (g *Gateway) log(message string, attrs ...any) (reference string) {
	reference = rand.Text()
	g.opts.Logger.Error(message, append(attrs, "reference", reference)...)
	return reference
}

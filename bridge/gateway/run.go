package gateway

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A run is one call of a [ToolServer]. What is not guarded does not change once it has begun.
type run struct {
	server, tool string // as the caller names them
	exposed      string // the name in the call
	principal    string
	known        *Directory // whose server it is, nil for one that the caller launches
	launch       *launch    // nil for a known one
	onlyAsked    bool
	verified     *definition // of the tool, nil if it has not been looked for

	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when it has ended
	executing bool          // guarded by ToolServer.mu
}

type runKey struct{}

// runOf is the run that a context belongs to, nil if it is none's.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// run makes a call, or with onlyAsked everything up to it: then the error is errOnlyAsked. The
// result is a CallToolResult.
func (t *ToolServer) run(ctx context.Context, q *runRequest, onlyAsked bool) (json.RawMessage, error) {
	r, err := t.newRun(ctx, q)
	if err != nil {
		return nil, err
	}
	r.onlyAsked = onlyAsked
	ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, r))
	defer r.cancel(nil)
	if err := t.begin(r); err != nil {
		return nil, err
	}
	defer t.end(r)
	ctx, cancel := approval.WithBudget(ctx, t.opts.CallTimeout)
	defer cancel()
	if err := t.verify(ctx, r); err != nil {
		return nil, causeOf(ctx, err)
	}
	result, err := t.gateway.run(ctx, mcp.MethodToolsCall, toolParams(r.exposed, q.arguments))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return result, nil
}

// newRun finds out which server is meant.
func (t *ToolServer) newRun(ctx context.Context, q *runRequest) (*run, error) {
	r := &run{server: q.server, tool: q.tool, principal: transport.Principal(ctx), done: make(chan struct{})}
	known := t.opts.Known.knows(q.server)
	switch {
	case known && q.params == nil:
		r.known, r.exposed = t.opts.Known, t.opts.Known.exposed(q.server, q.tool)
		return r, nil
	case known:
		return nil, &runError{kind: RunConflict, message: "the server " + jsonscan.Quote(q.server) + " is the operator's: expected empty server_params"}
	case q.params == nil:
		return nil, &runError{kind: RunUnknownServer, message: "there is no server " + jsonscan.Quote(q.server) + ` here, and server_params with "command" or "url" do not say how to launch one`}
	case t.opts.Launch == nil:
		return nil, &runError{kind: RunNoLaunch, message: "callers must not launch servers here: expected the name of a known server, and empty server_params"}
	}
	resolved, err := q.params.resolve(q.server)
	if err != nil { // parseRun has looked
		return nil, err
	}
	if err := t.opts.Launch(ctx, resolved); err != nil {
		return nil, &runError{kind: RunNoLaunch, message: "the server " + jsonscan.Quote(q.server) + " must not be launched: " + err.Error(), err: err}
	}
	r.exposed = bridge.Name(q.server, q.tool)
	r.launch = newLaunch(resolved)
	return r, nil
}

// answer makes the calls that have passed all that stands around.
func (t *ToolServer) answer(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	r := runOf(ctx)
	if _, name := subjectOf(call); call.Method() != mcp.MethodToolsCall || name != r.exposed {
		return nil, &runError{kind: RunForbidden, message: "the call was changed into one of another tool"}
	}
	if r.onlyAsked {
		return nil, errOnlyAsked
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	t.execute(r)
	if r.known == nil {
		return t.launched.call(ctx, r, call.Member("arguments"))
	}
	result, err := t.gateway.answer(ctx, call)
	if wire, ok := err.(*jsonrpc.Error); ok && wire.Code == jsonrpc.InvalidParams && !r.known.has(r.exposed) {
		return nil, r.unknownTool()
	}
	return result, err
}

// verify looks for the tool before anybody is asked, if that is wanted.
func (t *ToolServer) verify(ctx context.Context, r *run) (err error) {
	switch {
	case !t.opts.VerifyFirst:
	case r.launch != nil:
		r.verified, err = t.launched.define(ctx, r)
	case !r.known.has(r.exposed):
		err = r.unknownTool()
	}
	return err
}

func (r *run) unknownTool() error {
	return &runError{kind: RunUnknownTool, message: "Unknown tool: " + approval.Printable(cut(r.tool))}
}

// toolParams are those of tools/call.
func toolParams(name string, arguments json.RawMessage) json.RawMessage {
	return slices.Concat([]byte(`{"name":`), text(name), []byte(`,"arguments":`), arguments, []byte{'}'})
}

// causeOf is why a run has failed: if it was ended, what has ended it.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if ended, ok := context.Cause(ctx).(*runError); ok {
		return ended
	}
	return err
}

package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A run is one call of a [ToolServer]. What is not guarded does not change once it has begun.
type run struct {
	host         *ToolServer
	server, tool string // as the caller names them
	exposed      string // the name in the call
	principal    string
	known        *Directory // whose server it is, nil for one that the caller launches
	launch       *launch    // nil unless the caller says how
	onlyAsked    bool

	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when it has ended
	executing bool          // guarded by ToolServer.mu

	mu       sync.Mutex
	admitted bool        // it has been looked whether it can be
	refused  error       // why it cannot be
	verified *definition // of the tool, nil if it has not been looked for
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
	r := t.newRun(ctx, q)
	r.onlyAsked = onlyAsked
	ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, r))
	defer r.cancel(nil)
	if err := t.begin(r); err != nil {
		return nil, err
	}
	defer t.end(r)
	ctx, cancel := deadline.With(ctx, t.opts.CallTimeout, context.DeadlineExceeded)
	defer cancel()
	result, err := t.gateway.run(ctx, mcp.MethodToolsCall, toolParams(r.exposed, q.arguments))
	if err != nil {
		return nil, causeOf(ctx, cmp.Or(r.refusal(), err))
	}
	return result, nil
}

// newRun finds out which server is meant. One that cannot be is refused where [run.admit] is
// asked, so that what stands around it learns of it.
func (t *ToolServer) newRun(ctx context.Context, q *runRequest) *run {
	r := &run{host: t, server: q.server, tool: q.tool, principal: transport.Principal(ctx), done: make(chan struct{})}
	r.exposed = bridge.Name(q.server, q.tool)
	known := t.opts.Known.knows(q.server)
	if q.params != nil {
		resolved, err := q.params.resolve(q.server)
		if err != nil { // parseRun has looked
			r.refused = err
			return r
		}
		r.launch = newLaunch(resolved)
	}
	switch {
	case known && q.params == nil:
		r.known = t.opts.Known
		exposed, ok := r.known.exposed(q.server, q.tool)
		if r.exposed = exposed; !ok {
			r.known, r.refused = nil, r.unknownTool()
		}
	case known:
		r.refused = &runError{kind: RunConflict, message: "the server " + jsonscan.Quote(q.server) + " is the operator's: expected empty server_params"}
	case q.params == nil:
		r.refused = &runError{kind: RunUnknownServer, message: "there is no server " + jsonscan.Quote(q.server) + ` here, and server_params with "command" or "url" do not say how to launch one`}
	case t.opts.Launch == nil:
		r.refused = &runError{kind: RunNoLaunch, message: "callers must not launch servers here: expected the name of a known server, and empty server_params"}
	}
	return r
}

// admit says why there cannot be such a run, if so. It is asked before anybody is, and again
// before the call is made, but looks only once: the policy, which stands before both, has
// been asked then, so that nothing is started that it denies.
func (r *run) admit(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil && !r.admitted {
		r.verified, r.refused = r.host.admit(ctx, r)
		r.admitted = true
	}
	return r.refused
}

// definition is that of the run's tool, nil if it has not been looked for.
func (r *run) definition() *definition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verified
}

// refusal is why the run could not be, nil if that was not what has failed.
func (r *run) refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// admit asks whether a run's server may be launched, and looks for the tool if that is wanted.
func (t *ToolServer) admit(ctx context.Context, r *run) (*definition, error) {
	if r.launch != nil {
		if err := t.opts.Launch(ctx, r.launch.server); err != nil {
			return nil, &runError{kind: RunNoLaunch, message: "the server " + jsonscan.Quote(r.server) + " must not be launched: " + err.Error(), err: err}
		}
	}
	switch {
	case !t.opts.VerifyFirst:
		return nil, nil
	case r.launch != nil:
		return t.launched.define(ctx, r)
	case !r.known.has(r.exposed):
		return nil, r.unknownTool()
	default:
		return nil, nil
	}
}

// answer makes the calls that have passed all that stands around.
func (t *ToolServer) answer(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	r := runOf(ctx)
	if _, name := subjectOf(call); call.Method() != mcp.MethodToolsCall || name != r.exposed {
		return nil, &runError{kind: RunForbidden, message: "the call was changed into one of another tool"}
	}
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	if r.onlyAsked {
		if q := approval.FromContext(ctx); q != nil && !strings.HasPrefix(q.Launch, onlyAsked) {
			return nil, errNotMarked
		}
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

package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// A ToolServer runs tools for programs that name a server and a tool, such as the code that a
// model writes in a sandbox. Its routes are those of ipybox's ToolServer, whose clients it
// serves; [Runner] is the one for Go. Mount it at the root of a host, or behind
// [http.StripPrefix].
//
//	POST /run       {"server_name", "server_params", "tool_name", "tool_args"}
//	                {"result": …}, or {"error": text, "type": kind} with status 200 too
//	POST /approve   the same body: asks whether the call may be made, and makes none
//	                {"approved": true}, or {"approved": false, "error", "type"}
//	PUT  /reset     stops the servers that the caller has started, {"reset": "success"}
//	GET  /status    {"status": "ok"}
//	WS   /approval  [ToolServerOptions.Approval]
//
// A result is the tool's structured content, else its text as one string, else null; with
// "?full=1" it is all that the tool has given, a failure too. Malformed requests have status
// 400 and {"detail": text}. A [RunKind] says why a run has no result.
//
// Without server_params, or with {}, server_name is one of the operator's servers, whose
// tools are those of [ToolServerOptions.Known]. Otherwise the params say how the server is to
// be launched, for callers who may: see [ServerParams] and [ToolServerOptions.Launch]. Such a
// server is started by the first call that needs it, and stays until it is idle, has ended or
// is reset. Each principal has servers of its own. While one runs, other params under the same
// name are refused.
//
// First a person is asked, if so required, then the server is started, then the tool called. In
// the journal of a gate a call that was only asked about is approved and fails for that reason.
//
// Close a tool server when it is used no more. Its methods may be called concurrently.
type ToolServer struct {
	opts     ToolServerOptions
	gateway  *Gateway // whose access, bounds and operator's servers these are
	launched *launcher
	routes   http.Handler

	closing sync.Mutex // of who closes

	mu     sync.Mutex
	runs   map[*run]struct{}
	closed bool
	empty  chan struct{} // closed when there are no runs and there will be none
}

// NewToolServer returns a tool server that has started nothing. The error says which option
// is none.
func NewToolServer(opts *ToolServerOptions) (*ToolServer, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &ToolServer{opts: o, launched: newLauncher(&o), runs: make(map[*run]struct{}), empty: make(chan struct{})}
	t.gateway = New(o.Known, &Options{
		Access: o.Access, CallTimeout: o.CallTimeout, MaxBody: o.MaxBody,
		MaxRequests: o.MaxRequests, MaxPerCaller: o.MaxPerCaller, Logger: o.Logger,
	})
	invoke := mcp.Handler(t.answer)
	for _, around := range slices.Backward(o.Around) {
		invoke = around(invoke)
	}
	t.gateway.invoke = invoke
	t.routes = t.gateway.face(writeDetail, t.serve)
	return t, nil
}

// Access says who gets in; see [Access.Token].
func (t *ToolServer) Access() *Access { return t.gateway.Access() }

// ServeHTTP serves the routes. That of approvers has an access of its own, since no caller
// should approve what it asks for.
func (t *ToolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/approval" && t.opts.Approval != nil {
		t.opts.Approval.ServeHTTP(w, r)
		return
	}
	t.routes.ServeHTTP(w, r)
}

// Reset ends what runs, with [RunReset], and stops all servers that callers have started. Runs
// that wait for an approval go on, as do the operator's servers. It returns when all is over,
// what was to end before too, after [ToolServerOptions.Grace] or when ctx ends; the error tells
// that something is not.
func (t *ToolServer) Reset(ctx context.Context) error {
	return t.reset(ctx, func(string) bool { return true })
}

func (t *ToolServer) reset(ctx context.Context, of func(principal string) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.opts.Grace, errors.New("gateway: calls or servers have not ended yet"))
	defer cancel()
	var calls, servers []<-chan struct{}
	for _, r := range t.executing(of) {
		r.cancel(errReset)
		calls = append(calls, r.done)
	}
	unended := await(ctx, calls) // servers end sooner once their calls have been called off
	for _, s := range t.launched.reset(of) {
		servers = append(servers, s.ended)
	}
	return cmp.Or(await(ctx, servers), unended)
}

// await returns when all has ended, or why it has not waited for that.
func await(ctx context.Context, all []<-chan struct{}) error {
	for _, ended := range all {
		select {
		case <-ended:
			continue
		default:
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// executing are the runs whose calls are being made.
func (t *ToolServer) executing(of func(principal string) bool) (found []*run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.runs {
		if r.executing && of(r.principal) {
			found = append(found, r)
		}
	}
	return found
}

// begin adds a run to those under way.
func (t *ToolServer) begin(r *run) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	t.runs[r] = struct{}{}
	return nil
}

// execute notes that a run's call is made from now on.
func (t *ToolServer) execute(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.executing = true
}

func (t *ToolServer) end(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(r.done)
	delete(t.runs, r)
	if t.closed && len(t.runs) == 0 {
		close(t.empty)
	}
}

// close has later runs refused.
func (t *ToolServer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		if len(t.runs) == 0 {
			close(t.empty)
		}
	}
}

// Shutdown refuses new runs, waits for those under way until ctx ends, and then closes as
// [ToolServer.Close] does. It may be called more than once.
func (t *ToolServer) Shutdown(ctx context.Context) error {
	t.close()
	select {
	case <-t.empty:
		return t.Close()
	case <-ctx.Done():
		return cmp.Or(t.Close(), context.Cause(ctx))
	}
}

// Close refuses new runs, ends those under way with [RunClosed], which withdraws questions to
// approvers, and stops all servers that callers have started. It returns when nothing of this
// runs any more. [ToolServerOptions.Approval] is its owner's to close. It may be called more
// than once.
func (t *ToolServer) Close() error {
	t.close()
	t.closing.Lock()
	defer t.closing.Unlock()
	t.mu.Lock()
	for r := range t.runs {
		r.cancel(errClosed)
	}
	t.mu.Unlock()
	<-t.empty
	t.launched.close()
	return nil
}

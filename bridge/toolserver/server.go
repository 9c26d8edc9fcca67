package toolserver

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Server runs tools for programs that name a server and a tool, such as code that a model
// writes in a sandbox. Its routes are those of ipybox's ToolServer, and serve its clients;
// [Runner] is the one for Go. Mount it at the root of a host, or behind [http.StripPrefix].
//
//	POST /run       {"server_name", "server_params", "tool_name", "tool_args"}
//	                {"result": …}, or {"error": text, "type": kind} with status 200 too
//	POST /approve   the same body: asks whether the call may be made, and makes none
//	                {"approved": true}, or {"approved": false, "error", "type"}
//	PUT  /reset     stops the servers that the caller has started, {"reset": "success"}
//	GET  /status    {"status": "ok"}
//	WS   /approval  [Options.Approval]
//
// A result is the tool's structured content, else its text as one string, else null; with
// "?full=1" it is the whole CallToolResult, also of a tool that has failed. Malformed requests
// have status 400 and {"detail": text}. A [Kind] says why a run has no result.
//
// Without server_params, or with {}, server_name is one of the operator's servers, and the
// call is one to [Options.Server]. Otherwise the params describe how the server is launched,
// for callers who may: see [ServerParams] and [Options.Launch]. Such a server is started by
// the first call that needs it, and runs until it is idle, has ended or is reset. Each
// principal has servers of its own. While one runs, other params under the same name are
// refused.
//
// First a person is asked, if the guards require it, then the server is started, then the tool
// called. In the journal of an approval a call that was only asked about is approved and fails
// for that reason.
//
// Close a server when it is no longer used. Its methods may be called concurrently.
type Server struct {
	opts     Options
	servers  frontend.Servers // the operator's
	frontend *frontend.Frontend
	inner    *server.Server // has the entries of runs
	entries  frontend.Entries
	launched *launcher
	routes   http.Handler

	closing sync.Mutex // held by Close

	mu     sync.Mutex
	runs   map[*run]struct{}
	closed bool
	empty  chan struct{} // closed when there are no runs and there will be none
}

// New returns a server that has started nothing. The error names an option that is wrong. opts
// may be nil.
func New(opts *Options) (*Server, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, launched: newLauncher(&o), runs: make(map[*run]struct{}), empty: make(chan struct{})}
	s.servers = frontend.Servers{Server: o.Server, States: o.States}
	s.frontend = frontend.New(frontend.Options{
		Access: o.Access.Handler, CallTimeout: o.CallTimeout, MaxBody: o.MaxBody,
		MaxRequests: o.MaxRequests, MaxPerCaller: o.MaxPerCaller, Logger: o.Logger,
	})
	s.inner = server.New(mcp.Implementation{Name: "toolserver"}, &server.Options{
		Middleware: o.Middleware, Guards: append([]mcp.Guard{{Name: "launch", Run: s.admit}}, o.Guards...),
		CallMiddleware: o.CallMiddleware, Logger: o.Logger,
	})
	s.routes = s.frontend.Handler(frontend.WriteDetail, s.serve)
	return s, s.inner.Mount(&runs{s.catalog()}, nil)
}

// runs is the provider of the entries of runs.
type runs struct{ catalog *server.Catalog }

func (r *runs) Catalog() *server.Catalog { return r.catalog }

func (r *runs) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

// Access returns what admits requests; see [gateway.Access.Token].
func (s *Server) Access() *gateway.Access { return s.opts.Access }

// ServeHTTP serves the routes. That of approvers has an access of its own, since no caller
// should approve what it asks for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/approval" && s.opts.Approval != nil {
		s.opts.Approval.ServeHTTP(w, r)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// Reset ends what runs, with [Reset], and stops all servers that callers have started. Runs
// that wait for an approval go on, as do the operator's servers. It returns when all is over,
// what was to end before too, after [Options.Grace] or when ctx ends; the error tells
// that something is not.
func (s *Server) Reset(ctx context.Context) error {
	return s.reset(ctx, func(string) bool { return true })
}

func (s *Server) reset(ctx context.Context, of func(principal string) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Grace, errors.New("toolserver: calls or servers have not ended yet"))
	defer cancel()
	var calls, servers []<-chan struct{}
	for _, r := range s.executing(of) {
		r.cancel(errReset)
		calls = append(calls, r.done)
	}
	unended := await(ctx, calls) // servers end sooner once their calls have been called off
	for _, l := range s.launched.reset(of) {
		servers = append(servers, l.ended)
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

// executing returns the runs that do not wait for a person.
func (s *Server) executing(of func(principal string) bool) (found []*run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.runs {
		if of(r.principal) && !deadline.Paused(r.ctx) {
			found = append(found, r)
		}
	}
	return found
}

// begin adds a run to those under way.
func (s *Server) begin(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.runs[r] = struct{}{}
	return nil
}

func (s *Server) end(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(r.done)
	delete(s.runs, r)
	if s.closed && len(s.runs) == 0 {
		close(s.empty)
	}
}

// close has later runs refused.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		if len(s.runs) == 0 {
			close(s.empty)
		}
	}
}

// Shutdown refuses new runs, waits for those under way until ctx ends, and then closes as
// [Server.Close] does. It may be called more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close()
	select {
	case <-s.empty:
		return s.Close()
	case <-ctx.Done():
		return cmp.Or(s.Close(), context.Cause(ctx))
	}
}

// Close refuses new runs, ends those under way with [Closed], which withdraws questions to
// approvers, and stops all servers that callers have started. It returns when nothing of this
// runs any more. [Options.Approval] is its owner's to close. It may be called more
// than once.
func (s *Server) Close() error {
	s.close()
	s.closing.Lock()
	defer s.closing.Unlock()
	s.mu.Lock()
	for r := range s.runs {
		r.cancel(errClosed)
	}
	s.mu.Unlock()
	<-s.empty
	s.launched.close()
	return nil
}

package toolserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// A Server runs tools for programs that name a server and a tool, such as generated code in a sandbox. It has the
// routes of ipybox's ToolServer, and works with ipybox's clients; [Runner] is the client for Go. Mount it at the root
// of a host, or behind [http.StripPrefix].
//
//	POST /run       {"server_name", "server_params", "tool_name", "tool_args"}
//	                {"result": …}, or {"error": text, "type": code}, both with status 200
//	POST /approve   the same body: asks for approval of the call, and does not make it
//	                {"approved": true}, or {"approved": false, "error", "type"}
//	PUT  /reset     stops the servers that the caller has started, {"reset": "success"}
//	GET  /status    {"status": "ok"}
//	WS   /approval  [Options.Approval]
//
// A result is the tool's structured content, or else its text as one string, or else null. With
// "?full=1" it is the complete CallToolResult, even if the tool reports a failure. Malformed
// requests have the status 400 and {"detail": text}. An object server_params that describes no server is the
// error "start_failed" of the run. [Error].Code says why a run has no result.
//
// Without server_params, or with {}, server_name is one of the operator's servers, and
// [Options.Server] serves the call. Otherwise the params describe how the server is launched,
// if the caller may do that: see [ServerParams] and [Options.Launch]. The first call starts the
// server. It runs until it is idle, ends or is reset. Each principal has its own servers. While
// a server runs, other params under the same name are refused; see [Options.Conflict].
//
// A call proceeds in this order: approval if the guards require it, start of the server, call
// of the tool. In the journal of an approval, a request to /approve is approved and then fails.
//
// Close a server when it is no longer used. Its methods may be called concurrently.
type Server struct {
	opts      Options
	servers   frontend.Servers // the operator's servers
	frontend  *frontend.Frontend
	runServer *server.Server // serves the calls of launched servers, and requests to /approve
	entries   frontend.Entries
	launcher  *launcher
	routes    http.Handler

	closing sync.Mutex // held by Close

	// Of a server that Start has started:
	url     string
	web     *http.Server
	serving sync.WaitGroup // the goroutine that accepts connections

	mu     sync.Mutex
	runs   map[*run]struct{}
	closed bool
	empty  chan struct{} // closed when the server is closed and has no runs
}

// New returns a server. It starts no upstream server. The error reports an invalid option. opts
// may be nil.
func New(opts *Options) (*Server, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, launcher: newLauncher(&o), runs: make(map[*run]struct{}), empty: make(chan struct{})}
	s.servers = frontend.Servers{Server: o.Server, States: o.States}
	s.frontend = frontend.New(frontend.Options{
		Authenticate: o.Authenticator.Handler, CallTimeout: o.CallTimeout, Limits: o.Limits, Logger: o.Logger,
	})
	s.runServer = server.New(mcp.Implementation{Name: "toolserver"}, &server.Options{
		Middleware: o.Middleware, Guards: append([]mcp.Guard{{Name: "launch", Run: s.checkLaunch}}, o.Guards...),
		CallMiddleware: o.CallMiddleware, Logger: o.Logger,
	})
	s.routes = s.frontend.Handler(frontend.WriteDetail, s.serve)
	return s, s.runServer.Mount(&runProvider{s.catalog()}, nil)
}

// Start returns a server that serves HTTP at a TCP address, such as "localhost:8900", until it is closed. The error
// reports an invalid option or that the address cannot be used. opts may be nil.
func Start(address string, opts *Options) (*Server, error) {
	s, err := New(opts)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("toolserver: %w", err), s.Close())
	}
	s.url, s.web = "http://"+listener.Addr().String(), httptransport.NewServer(s)
	s.serving.Go(func() {
		if err := s.web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Logger.Error("the tool server does not accept connections any more", "error", err)
		}
	})
	return s, nil
}

// URL returns the URL of a server that [Start] has started, or "".
func (s *Server) URL() string { return s.url }

// A runProvider provides the entries of runs.
type runProvider struct{ catalog *server.Catalog }

func (r *runProvider) Catalog() *server.Catalog { return r.catalog }

func (r *runProvider) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

// Authenticator returns the authenticator of all routes except /approval; see
// [gateway.Authenticator.Token].
func (s *Server) Authenticator() *gateway.Authenticator { return s.opts.Authenticator }

// ServeHTTP serves the routes. [Options.Approval] does its own authentication, so that callers
// cannot approve their own calls.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/approval" && s.opts.Approval != nil {
		s.opts.Approval.ServeHTTP(w, r)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// Reset ends all runs with the code "reset", except those that wait for approval, and stops all
// servers that callers have started. It waits until they have ended, for [Options.Grace] or
// until ctx ends; the error reports that something has not ended.
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
	unended := await(ctx, calls) // servers end sooner after their calls have been canceled
	for _, l := range s.launcher.reset(of) {
		servers = append(servers, l.ended)
	}
	return cmp.Or(await(ctx, servers), unended)
}

// await waits until all channels are closed, or returns the cause of ctx.
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

// executing returns the runs that do not wait for approval.
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

// begin adds a run.
func (s *Server) begin(r *run) *frontend.Failure {
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

// close makes begin refuse new runs.
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

// Shutdown refuses new runs, waits until the current ones have ended or ctx ends, and then
// calls [Server.Close]. It may be called more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close()
	select {
	case <-s.empty:
		return s.Close()
	case <-ctx.Done():
		return cmp.Or(s.Close(), context.Cause(ctx))
	}
}

// Close refuses new runs, ends the current runs with the code "closed", and stops all servers that callers have
// started. Requests for approval of these runs are withdrawn. It returns when all of this has ended, and for a server of
// [Start] when the responses have been sent, or 2 seconds later. It does not close [Options.Approver]. It may be called
// more than once.
func (s *Server) Close() error {
	s.close()
	s.closing.Lock()
	defer s.closing.Unlock()
	s.mu.Lock()
	for r := range s.runs {
		// A run that waits for approval is canceled before an answer arrives, which is then too late.
		deadline.WhilePaused(r.ctx, func() {
			r.unsent.Store(true)
			r.cancel(errClosed)
		})
		r.cancel(errClosed)
	}
	s.mu.Unlock()
	<-s.empty
	s.launcher.close()
	if s.web == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), responseTimeout)
	defer cancel()
	_ = s.web.Shutdown(ctx) // Close ends what is left
	err := s.web.Close()
	s.serving.Wait()
	return err
}

// responseTimeout bounds how long closing a server waits for its last responses.
const responseTimeout = 2 * time.Second

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	route, ok := map[string]struct {
		method string
		serve  http.HandlerFunc
	}{
		"/run":     {http.MethodPost, s.serveRun},
		"/approve": {http.MethodPost, s.serveApprove},
		"/reset":   {http.MethodPut, s.serveReset},
		"/status":  {http.MethodGet, serveStatus},
	}[r.URL.Path]
	reject := frontend.Reject(frontend.WriteDetail)
	switch {
	case !ok:
		reject.Unread(w, r, http.StatusNotFound, "Not Found")
	case reject.Allows(w, r, route.method):
		route.serve(w, r)
	}
}

func serveStatus(w http.ResponseWriter, _ *http.Request) {
	frontend.WriteJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

func (s *Server) serveReset(w http.ResponseWriter, r *http.Request) {
	httpguard.AbandonBody(w, r)
	caller := transport.Principal(r.Context())
	if err := s.reset(r.Context(), func(principal string) bool { return principal == caller }); err != nil {
		frontend.WriteDetail(w, http.StatusGatewayTimeout, "servers are still stopping")
		return
	}
	frontend.WriteJSON(w, http.StatusOK, []byte(`{"reset":"success"}`))
}

func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	q, ok := s.read(w, r)
	if !ok {
		return
	}
	result, err := s.handleRun(r.Context(), q, false)
	if err == nil && r.URL.Query().Get("full") != "1" {
		result, err = reduceRun(result)
	}
	if err != nil {
		frontend.WriteJSON(w, http.StatusOK, failureJSON(q, err, false))
		return
	}
	frontend.WriteJSON(w, http.StatusOK, append(append([]byte(`{"result":`), result...), '}'))
}

func (s *Server) serveApprove(w http.ResponseWriter, r *http.Request) {
	q, ok := s.read(w, r)
	if !ok {
		return
	}
	_, err := s.handleRun(r.Context(), q, true)
	if failed, ok := errors.AsType[*frontend.Failure](err); !ok || failed.Code != errApprovalOnly.Code {
		frontend.WriteJSON(w, http.StatusOK, failureJSON(q, err, true))
		return
	}
	frontend.WriteJSON(w, http.StatusOK, []byte(`{"approved":true}`))
}

// read reads the body of a request. If ok is false, it has answered the request.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (q *runRequest, ok bool) {
	body, ok := s.frontend.Body(w, r, frontend.WriteDetail)
	if !ok {
		return nil, false
	}
	q, err := parseRun(body)
	if err != nil {
		frontend.WriteDetail(w, http.StatusBadRequest, err.Error())
		return nil, false
	}
	return q, true
}

// reduceRun converts a result into one JSON value. The error is the failure that the tool
// reports.
func reduceRun(result []byte) ([]byte, error) {
	var whole mcp.CallToolResult
	if err := whole.UnmarshalJSON(result); err != nil {
		return nil, frontend.MalformedResult
	}
	return llm.Value(&whole)
}

// failureJSON returns the response for a failed run, or for a refused request to /approve.
func failureJSON(q *runRequest, err error, asked bool) []byte {
	failed := failureOf(q, err)
	answer := struct {
		Approved *bool  `json:"approved,omitempty"`
		Error    string `json:"error"`
		Type     string `json:"type"`
	}{Error: failed.Message, Type: failed.Code}
	if asked {
		answer.Approved = new(bool)
	}
	return frontend.Encode(answer)
}

package toolserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// approvalOnlyPrefix is the prefix of Origin.Launch in a request to /approve. It makes the request different from the
// request for a run, so that a remembered approval does not apply to a run.
const approvalOnlyPrefix = "(only approval is requested, nothing will be run) "

// A run is one request to /run or /approve. Except for ctx, cancel and done, only one goroutine
// uses it.
type run struct {
	server, tool string // the names that the caller uses
	name         string // of the tool in the call
	principal    string
	approvalOnly bool
	launch       *launch       // nil for an operator's server
	entry        *server.Entry // the called entry; nil for a call of an operator's server
	resolveError error         // error of the look-up of the entry
	launchError  error         // error if the server must not be launched
	verified     *verifiedTool // the tool found before approval; nil without VerifyFirst
	sent         atomic.Bool   // the call may have been sent to the launched server
	unsent       atomic.Bool   // the run was ended before its call, also one of an operator's server

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the run has ended
}

type runKey struct{}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// handleRun makes a call and returns its CallToolResult. With approvalOnly it asks for approval only,
// and the error is errApprovalOnly if that is given.
func (s *Server) handleRun(ctx context.Context, q *runRequest, onlyAsked bool) (json.RawMessage, error) {
	r := &run{server: q.server, tool: q.tool, principal: transport.Principal(ctx), approvalOnly: onlyAsked, done: make(chan struct{})}
	ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, r))
	defer r.cancel(nil)
	ctx, cancel := s.frontend.Timeout(ctx)
	defer cancel()
	r.ctx = ctx
	if err := s.begin(r); err != nil {
		r.unsent.Store(true)
		return nil, r.interrupted(err)
	}
	defer s.end(r)
	result, failed := s.serveRunOnce(ctx, r, q)
	if failed != nil && s.opts.Conflict == Ignore && errors.Is(failed.Err, errOtherParams) {
		result, failed = s.serveRunOnce(ctx, r, q) // another call has started the server in the meantime
	}
	if failed == nil {
		return result, nil
	}
	if ended, ok := context.Cause(ctx).(*frontend.Failure); ok {
		failed = ended // such as a reset
	}
	return nil, r.interrupted(failed)
}

// serveRunOnce finds the called entry and calls it.
func (s *Server) serveRunOnce(ctx context.Context, r *run, q *runRequest) (json.RawMessage, *frontend.Failure) {
	target := s.servers.Server
	if s.prepare(r, q); r.entry != nil || r.resolveError != nil {
		target = s.runServer
	}
	return s.frontend.Serve(ctx, target, mcp.MethodToolsCall, frontend.ToolParams(r.name, q.arguments))
}

// prepare finds the called entry.
func (s *Server) prepare(r *run, q *runRequest) {
	r.name = nameIn(r.server, r.tool)
	switch {
	case q.paramsError != nil:
		r.resolveError = failure(codeStartFailed, "the server "+jsonscan.Quote(r.server)+" cannot be launched: "+q.paramsError.Error(), q.paramsError)
		return
	case q.params == nil:
		s.prepareKnown(r)
		return
	}
	resolved, err := q.params.resolve(r.server)
	if err != nil { // impossible: parseRun has checked the params
		r.resolveError = err
		return
	}
	r.launch = newLaunch(resolved)
	if s.opts.Conflict == Ignore {
		r.launch = cmp.Or(s.launcher.running(serverKey{r.principal, r.server}), r.launch)
	}
	if known := s.servers.Has(r.server); known || s.isPseudo(r) {
		r.launchError = failure(codeConflict, "the operator has a server "+jsonscan.Quote(r.server)+": leave server_params empty to use it", nil)
	} else if s.opts.Launch == nil {
		r.launchError = failure(codeLaunchRefused, "callers must not launch servers: name a server of the operator, and leave server_params empty", nil)
	}
	target := mcp.Target{
		Kind: mcp.KindTool, Name: r.name,
		Origin: mcp.Origin{Server: approval.LaunchedPrefix + r.server, Name: r.tool, Launch: r.launch.text},
	}
	if r.approvalOnly {
		target.Origin.Launch = approvalOnlyPrefix + target.Origin.Launch
	}
	r.entry = s.entries.Get(target.Origin, func() *server.Entry { return &server.Entry{Target: target, Handle: s.execute} })
}

// nameIn returns the name of a tool in calls, which rules of policies match. The name of a server that cannot be an
// alias of a bridge may contain the separator. The names of its tools then end in a digest, so that they differ from
// the names of all other servers' tools.
func nameIn(server, tool string) string {
	if bridge.CheckAlias(server) != nil {
		server = approval.LaunchedPrefix + server
	}
	return bridge.Name(server, tool)
}

func (s *Server) isPseudo(r *run) bool {
	_, pseudo, _ := s.servers.Find(r.ctx, r.server, r.tool)
	return pseudo
}

// prepareKnown finds the tool of an operator's server.
func (s *Server) prepareKnown(r *run) {
	name, _, ok := s.servers.Find(r.ctx, r.server, r.tool)
	switch {
	case ok:
		r.name = name
	case s.servers.Has(r.server):
		r.resolveError = errUnknownTool
	default:
		r.resolveError = failure(codeUnknownServer, "there is no server "+jsonscan.Quote(r.server)+` here, and server_params with "command" or "url" do not say how to launch one`, nil)
	}
	if !ok || !r.approvalOnly {
		return
	}
	catalog, caller := s.servers.Server.Catalog(), &mcp.Caller{Principal: r.principal}
	known, err := catalog.LookupFor(r.ctx, caller, mcp.KindTool, name)
	if err == nil && catalog.Lookup(mcp.KindTool, name) == nil {
		known, err = catalog.Resolve(r.ctx, mcp.KindTool, name)
	}
	switch {
	case err != nil:
		r.resolveError = err
		return
	case known == nil || known.Visible != nil && !known.Visible(r.ctx, caller):
		r.resolveError = errUnknownTool
		return
	}
	target := known.Target
	target.Origin.Launch = approvalOnlyPrefix + target.Origin.Launch
	r.entry = s.entries.Get(known, func() *server.Entry { return &server.Entry{Target: target, Handle: s.execute} })
}

// catalog returns a catalog that lists nothing and resolves the entry of the current run.
func (s *Server) catalog() *server.Catalog {
	return server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(ctx context.Context, _ mcp.Kind, name string) (*server.Entry, error) {
		switch r := runOf(ctx); {
		case name != r.name:
			return nil, failure(codeForbidden, "the call was changed to another tool", nil)
		default:
			return r.entry, r.resolveError
		}
	}})
}

// checkLaunch decides whether the server of a run may be launched. With [Options].VerifyFirst
// it also finds the tool. It runs after the Check of all guards, and before the guards that ask
// a person.
func (s *Server) checkLaunch(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		r := runOf(ctx)
		if r.launch == nil {
			return next(ctx, call)
		}
		if r.launchError != nil {
			return nil, r.launchError
		}
		if err := s.opts.Launch(ctx, r.launch.server); err != nil {
			return nil, failure(codeLaunchRefused, "the server "+jsonscan.Quote(r.server)+" must not be launched: "+err.Error(), err)
		}
		if !s.opts.VerifyFirst {
			return next(ctx, call)
		}
		var err error
		if r.verified, err = s.launcher.findTool(ctx, r); err != nil {
			return nil, err
		}
		target := *call.Target()
		target.Definition = r.verified.definition
		if call, err = call.Enter(&target, nil, nil); err != nil {
			return nil, err
		}
		return next(ctx, call)
	}
}

// execute makes the call of a run, after all guards.
func (s *Server) execute(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	r := runOf(ctx)
	if r.approvalOnly {
		return nil, errApprovalOnly
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.launcher.call(ctx, r, call.Member("arguments"))
}

const (
	// maxServerName is the maximum length of the name of a server, in bytes. It is any text that is
	// not empty.
	maxServerName = 256
	// maxToolName is the maximum length of the name of a tool, in bytes.
	maxToolName = 256
)

// A runRequest is the body of a request to /run or /approve.
type runRequest struct {
	server, tool string
	params       *ServerParams   // nil for an operator's server
	paramsError  error           // says why the params do not describe a server
	arguments    json.RawMessage // the unchanged JSON object
}

// parseRun reads the body of a request. It ignores unknown members, except for members that differ from a known one in
// case only, which are errors. The error names the expected form.
func parseRun(body []byte) (*runRequest, error) {
	if kind := jsonscan.KindOf(body); kind != jsonscan.Object {
		return nil, fmt.Errorf("expected a JSON object, found %v", kind)
	}
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, err
	}
	names := []string{"server_name", "server_params", "tool_name", "tool_args"}
	for member := range members.All() {
		name := member.Name()
		if !slices.Contains(names, name) && slices.Contains(names, strings.ToLower(name)) {
			return nil, fmt.Errorf("%s: expected lower case", jsonscan.Quote(name))
		}
	}
	q := &runRequest{arguments: members.Get("tool_args")}
	if q.server, err = nameOf(&members, "server_name", maxServerName); err != nil {
		return nil, err
	}
	if q.tool, err = nameOf(&members, "tool_name", maxToolName); err != nil {
		return nil, err
	}
	if kind := jsonscan.KindOf(q.arguments); kind != jsonscan.Object {
		return nil, fmt.Errorf("tool_args: expected an object, found %v", kind)
	}
	if _, err := jsonscan.ReadObject(q.arguments); err != nil {
		return nil, fmt.Errorf("tool_args: %w", err)
	}
	params := members.Get("server_params")
	if kind := jsonscan.KindOf(params); params != nil && kind != jsonscan.Object && kind != jsonscan.Null {
		return nil, fmt.Errorf("server_params: expected an object, found %v", kind)
	}
	if q.params, err = parseParams(params); err != nil {
		q.paramsError = fmt.Errorf("server_params: %w", err)
	}
	return q, nil
}

func nameOf(members *jsonscan.Members, member string, most int) (string, error) {
	raw := members.Get(member)
	if kind := jsonscan.KindOf(raw); kind != jsonscan.String {
		return "", fmt.Errorf("%s: expected a string, found %v", member, kind)
	}
	name := jsonscan.Unquote(raw)
	if name == "" || len(name) > most {
		return "", fmt.Errorf("%s: expected 1 to %d bytes", member, most)
	}
	return name, nil
}

package toolserver

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Launched begins the name of the origin of a tool whose server a caller has launched: a
// caller that calls its server files calls tools of the server launched:files, which no rule
// about the operator's server files matches.
const Launched = frontend.Launched

// onlyAsked begins how the server is launched, as approvers see it, where nothing will be run.
// It makes the question another one, so that an answer that is remembered is none to a run.
const onlyAsked = "(only approval is asked for, nothing will be run) "

// A run is one request for a call. One goroutine at a time uses what ctx does not guard.
type run struct {
	server, tool string // as the caller names them
	name         string // of the tool in the call
	principal    string
	onlyAsked    bool
	launch       *launch       // nil for an operator's server
	entry        *server.Entry // that the call is for; nil for a call of an operator's server
	unresolved   error         // why there is none
	refused      error         // why the server must not be launched
	verified     *definition   // of the tool, nil if it was not looked for

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the run has ended
}

type runKey struct{}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// run makes a call, or with onlyAsked everything up to it: then the error is errOnlyAsked. The
// result is a CallToolResult.
func (s *Server) run(ctx context.Context, q *runRequest, onlyAsked bool) (json.RawMessage, error) {
	r := &run{server: q.server, tool: q.tool, principal: transport.Principal(ctx), onlyAsked: onlyAsked, done: make(chan struct{})}
	ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, r))
	defer r.cancel(nil)
	ctx, cancel := s.frontend.Timeout(ctx)
	defer cancel()
	r.ctx = ctx
	if err := s.begin(r); err != nil {
		return nil, err
	}
	defer s.end(r)
	target := s.servers.Server
	if s.prepare(r, q.params); r.entry != nil || r.unresolved != nil {
		target = s.inner
	}
	result, failed := s.frontend.Serve(ctx, target, mcp.MethodToolsCall, frontend.ToolParams(r.name, q.arguments))
	if failed == nil {
		return result, nil
	}
	if ended, ok := context.Cause(ctx).(*frontend.Failure); ok {
		return nil, ended // by a reset, for example
	}
	return nil, failed
}

// prepare finds out what a run is for.
func (s *Server) prepare(r *run, params *ServerParams) {
	r.name = bridge.Name(r.server, r.tool)
	if params == nil {
		s.prepareKnown(r)
		return
	}
	resolved, err := params.resolve(r.server)
	if err != nil { // parseRun has checked them
		r.unresolved = err
		return
	}
	r.launch = newLaunch(resolved)
	if known := s.servers.Has(r.server); known || s.isPseudo(r) {
		r.refused = failure(Conflict, "the server "+jsonscan.Quote(r.server)+" is the operator's: expected empty server_params", nil)
	} else if s.opts.Launch == nil {
		r.refused = failure(NoLaunch, "callers must not launch servers here: expected the name of a known server, and empty server_params", nil)
	}
	target := mcp.Target{
		Kind: mcp.KindTool, Name: r.name,
		Origin: mcp.Origin{Server: Launched + r.server, Name: r.tool, Launch: r.launch.text},
	}
	if r.onlyAsked {
		target.Origin.Launch = onlyAsked + target.Origin.Launch
	}
	r.entry = s.entries.Get(target.Origin, func() *server.Entry { return &server.Entry{Target: target, Handle: s.execute} })
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
		r.unresolved = errUnknownTool
	default:
		r.unresolved = failure(UnknownServer, "there is no server "+jsonscan.Quote(r.server)+` here, and server_params with "command" or "url" do not say how to launch one`, nil)
	}
	if !ok || !r.onlyAsked {
		return
	}
	catalog := s.servers.Server.Catalog()
	known := catalog.Lookup(mcp.KindTool, name)
	if known == nil {
		var err error
		if known, err = catalog.Resolve(r.ctx, mcp.KindTool, name); err != nil {
			r.unresolved = err
			return
		}
	}
	if known == nil || known.Visible != nil && !known.Visible(r.ctx, &mcp.Caller{Principal: r.principal}) {
		r.unresolved = errUnknownTool
		return
	}
	target := known.Target
	target.Origin.Launch = onlyAsked + target.Origin.Launch
	r.entry = s.entries.Get(known, func() *server.Entry { return &server.Entry{Target: target, Handle: s.execute} })
}

// catalog returns the catalog of the entries of runs, which are in no list.
func (s *Server) catalog() *server.Catalog {
	return server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(ctx context.Context, _ mcp.Kind, name string) (*server.Entry, error) {
		switch r := runOf(ctx); {
		case name != r.name:
			return nil, failure(Forbidden, "the call was changed into one of another tool", nil)
		default:
			return r.entry, r.unresolved
		}
	}})
}

// admit decides about launching the server of a run, and with [Options].VerifyFirst finds the
// tool. It runs when all guards have agreed to the call, and before those that ask a person.
func (s *Server) admit(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		r := runOf(ctx)
		if r.launch == nil {
			return next(ctx, call)
		}
		if r.refused != nil {
			return nil, r.refused
		}
		if err := s.opts.Launch(ctx, r.launch.server); err != nil {
			return nil, failure(NoLaunch, "the server "+jsonscan.Quote(r.server)+" must not be launched: "+err.Error(), err)
		}
		if !s.opts.VerifyFirst {
			return next(ctx, call)
		}
		var err error
		if r.verified, err = s.launched.define(ctx, r); err != nil {
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

// execute makes the call of a run that has been agreed to.
func (s *Server) execute(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	r := runOf(ctx)
	if r.onlyAsked {
		return nil, errOnlyAsked
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.launched.call(ctx, r, call.Member("arguments"))
}

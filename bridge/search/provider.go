package search

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Provider is another one with [SearchTool] and [CallTool] in place of its tools. Make
// it with [New] and mount it with [server.Server.MountProvider]. It is safe for
// concurrent use.
type Provider struct {
	source server.Provider
	tools  []server.Listed // the two
	within *server.Server  // has the source mounted, within what stands around its tools
	invoke mcp.Handler     // calls and lists them
	logger *slog.Logger

	mu      sync.Mutex // of who changes current
	current atomic.Pointer[offer]
}

var (
	_ server.Provider   = (*Provider)(nil)
	_ server.Starter    = (*Provider)(nil)
	_ server.Subscriber = (*Provider)(nil)
	_ server.Scoper     = (*Provider)(nil)
)

// New returns a provider that has [SearchTool] and [CallTool] in place of the tools of p.
// p need not have any yet. Calls for its other offers, and whether these are watched, are
// passed on to it; its Run is run by the provider's.
//
// The error is a *[server.CollisionError] when p has two tools of one name, or says
// which entry of its list is not JSON. Later ones are logged and not offered.
func New(p server.Provider, opts *Options) (*Provider, error) {
	var options Options
	if opts != nil {
		options = *opts
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	tools, err := listTools(options.Description)
	if err != nil {
		return nil, err
	}
	made := &Provider{source: p, tools: tools, logger: options.Logger}
	if err := made.enclose(options); err != nil {
		return nil, err
	}
	return made, nil
}

// enclose mounts the source on a server that is never bound to a link: all that it has to
// do is to keep what stands around the tools.
func (p *Provider) enclose(options Options) error {
	reached := func(next mcp.Handler) mcp.Handler {
		p.invoke = next
		return next
	}
	around := options.Around
	around.Outer = slices.Concat([]mcp.Middleware{reached}, around.Outer)
	p.within = server.New(mcp.Implementation{Name: "search"}, &server.Options{Around: around, Logger: options.Logger})
	return p.within.MountProvider(p.source, "")
}

// Catalogue says what is offered now: the two tools, and what else the source offers.
func (p *Provider) Catalogue() *server.Catalogue { return &p.now().catalogue }

// Call answers calls for the two tools, and has the source answer all others.
func (p *Provider) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if call.Method() != mcp.MethodToolsCall {
		return p.source.Call(ctx, call)
	}
	name := call.Member("name")
	switch {
	case jsonscan.KindOf(name) != jsonscan.String:
		return nil, invalidParams("name must be a string")
	case jsonscan.KeyIs(name, SearchTool):
		return p.search(ctx, call)
	case jsonscan.KeyIs(name, CallTool):
		return p.forward(ctx, call)
	}
	return nil, invalidParams("unknown tool: %.256q", jsonscan.Unquote(name))
}

// Run runs the source. Of what it reports, changes of its tools are not passed on: the
// two tools do not change.
func (p *Provider) Run(ctx context.Context, changed func(mcp.Change)) error {
	return p.source.Run(ctx, func(change mcp.Change) {
		if change.Kind != mcp.KindTool {
			changed(change)
		}
	})
}

// Started waits for the source, if there is something to wait for.
func (p *Provider) Started(ctx context.Context) error {
	if s, ok := p.source.(server.Starter); ok {
		return s.Started(ctx)
	}
	return nil
}

// Scopes are those of the source, if it knows of any. A call of [CallTool] may be one of
// any tool, and so needs the scopes of all.
func (p *Provider) Scopes(method, name string) []string {
	switch {
	case method == mcp.MethodToolsCall && name == CallTool:
		return p.now().scopes()
	case method == mcp.MethodToolsCall:
		return nil
	}
	if s, ok := p.source.(server.Scoper); ok {
		return s.Scopes(method, name)
	}
	return nil
}

// scopesOfAll are those that any of the tools needs.
func (p *Provider) scopesOfAll(tools []server.Listed) []string {
	all := map[string]bool{}
	for _, tool := range tools {
		for _, scope := range p.within.Scopes(mcp.MethodToolsCall, tool.Name) {
			all[scope] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Subscribe tells the source that a resource is watched, if it must know.
func (p *Provider) Subscribe(ctx context.Context, uri string) (unsubscribe func(), err error) {
	if s, ok := p.source.(server.Subscriber); ok {
		return s.Subscribe(ctx, uri)
	}
	return func() {}, nil
}

// now is the source's catalogue as it is offered.
func (p *Provider) now() *offer {
	catalogue := p.source.Catalogue()
	if o := p.current.Load(); o != nil && o.from == catalogue {
		return o
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	catalogue = p.source.Catalogue()
	if o := p.current.Load(); o != nil && o.from == catalogue {
		return o
	}
	o := newOffer(catalogue, p.tools)
	o.scopes = sync.OnceValue(func() []string { return p.scopesOfAll(catalogue.Tools) })
	if left := len(catalogue.Tools) - MaxTools; left > 0 {
		p.logger.Warn("some tools cannot be found, only called", "tools", left, "limit", MaxTools)
	}
	p.current.Store(o)
	return o
}

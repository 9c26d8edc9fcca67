package search

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Provider is another one with [SearchTool] and [CallTool] in place of its tools. Make
// it with [New] and mount it with [server.Server.Mount]. It is safe for concurrent use.
type Provider struct {
	within *server.Server // has the source mounted, within guards and middleware
	search *server.Entry
	logger *slog.Logger

	mu   sync.Mutex
	call *server.Entry // the last one: its scopes are those of all tools
}

var _ server.Provider = (*Provider)(nil)

// New returns a provider that has [SearchTool] and [CallTool] in place of the tools of p.
// p need not have any yet. All other entries of p are offered as they are; its Run is run by
// the provider's.
//
// The error is a *[server.CollisionError] when p has two entries of one name. Later ones
// are logged and not offered.
func New(p server.Provider, opts *Options) (*Provider, error) {
	var options Options
	if opts != nil {
		options = *opts
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	made := &Provider{logger: options.Logger}
	var err error
	if made.search, made.call, err = newTools(options.Description, made.find, made.forward); err != nil {
		return nil, err
	}
	made.within = server.New(mcp.Implementation{Name: "search"}, &server.Options{
		Guards: options.Guards, CallMiddleware: options.CallMiddleware, Logger: options.Logger,
	})
	return made, made.within.Mount(p, nil)
}

// Catalog returns what is offered now: the two tools, and the other entries of the source.
func (p *Provider) Catalog() *server.Catalog {
	source := p.within.Provider().Catalog()
	return source.Memo(p, func() any {
		if left := source.Len(mcp.KindTool) - MaxTools; left > 0 {
			p.logger.Warn("some tools cannot be found, only called", "tools", left, "limit", MaxTools)
		}
		tools := server.NewCatalog([]*server.Entry{p.search, p.callOf(source)}, nil)
		others := source.Map(func(e *server.Entry) *server.Entry {
			if e.Kind == mcp.KindTool {
				return nil
			}
			return e
		})
		return server.Merge(nil, server.Part{Owner: "search", Catalog: tools}, server.Part{Owner: "the source", Catalog: others})
	}).(*server.Catalog)
}

// callOf returns the entry of [CallTool], which may call any tool and so needs the scopes
// of all.
func (p *Provider) callOf(source *server.Catalog) *server.Entry {
	all := make(map[string]bool)
	for e := range source.All(mcp.KindTool) {
		for _, scope := range e.Scopes {
			all[scope] = true
		}
	}
	scopes := slices.Sorted(maps.Keys(all))
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.call.Scopes, scopes) {
		call := *p.call
		call.Scopes = scopes
		p.call = &call
	}
	return p.call
}

// Run runs the source. Of what it reports, changes of its tools are not passed on: the
// two tools do not change.
func (p *Provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	return p.within.Provider().Run(ctx, ready, func(change mcp.Change) {
		if change.Kind != mcp.KindTool {
			changed(change)
		}
	})
}

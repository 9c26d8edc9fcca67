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

const (
	// defaultLimit is the largest number of tools that a search finds by default.
	defaultLimit = 5
	// maxLimit is the largest limit of a search.
	maxLimit = 50
	// maxQuery is the length of the longest query, in bytes.
	maxQuery = 1 << 10
	// maxTools is how many tools of a catalog can be found. All can be called. If there are more,
	// each server has an equal share.
	maxTools = 10_000

	maxIndexed = 512     // words of one tool
	maxWord    = 64      // bytes
	maxBegin   = 32      // terms for a word of a query
	maxFound   = 1 << 20 // bytes of a result; the best tool may be longer
)

// Options configure a provider. The zero value is ready for use.
type Options struct {
	// Description tells a model which tools can be found, such as "GitHub issues and pull requests, the wiki". It is
	// added to the description of [SearchTool].
	Description string
	// Guards and CallMiddleware apply to the tools of the source, not to the two tools. A
	// tool that Visible of a guard hides is not found.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Logger logs entries that cannot be offered or found. Default: slog.Default().
	Logger *slog.Logger
}

// A provider offers [SearchTool] and [CallTool] in place of the tools of a source.
type provider struct {
	source *server.Server // mounts the source behind the guards and middleware
	search *server.Entry
	logger *slog.Logger

	mu   sync.Mutex
	call *server.Entry // its scopes are the scopes of all tools together
}

var _ server.Provider = (*provider)(nil)

// New returns a provider with [SearchTool] and [CallTool] in place of the tools of source.
// Other entries are offered unchanged. Mount the provider with [server.Server.Mount]. It runs source, and may be used
// concurrently. opts may be nil.
//
// The error is a *[server.CollisionError] if source has two entries of one name, or says that
// an entry is not valid. Such entries that appear later are logged and not offered.
func New(source server.Provider, opts *Options) (server.Provider, error) {
	var options Options
	if opts != nil {
		options = *opts
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	p := &provider{logger: options.Logger}
	var err error
	if p.search, p.call, err = newTools(options.Description, p.find, p.forward); err != nil {
		return nil, err
	}
	p.call.Tasks = func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return p.source.Serve(ctx, call) }
	p.source = server.New(mcp.Implementation{Name: "search"}, &server.Options{
		Guards: options.Guards, CallMiddleware: options.CallMiddleware, Logger: options.Logger,
	})
	return p, p.source.Mount(source, nil)
}

// Catalog returns the two tools and the current other entries of the source.
func (p *provider) Catalog() *server.Catalog {
	source := p.source.Provider().Catalog()
	return source.Memo(p, func() any {
		if hidden := source.Len(mcp.KindTool) - maxTools; hidden > 0 {
			p.logger.Warn("some tools can be called and not found", "tools", hidden, "limit", maxTools)
		}
		tools := server.NewCatalog([]*server.Entry{p.search, p.callEntry(source)}, nil)
		others := source.Map(func(e *server.Entry) *server.Entry {
			if e.Kind == mcp.KindTool {
				return nil
			}
			return e
		})
		return server.Merge(nil, server.Part{Owner: "search", Catalog: tools}, server.Part{Owner: "the source", Catalog: others})
	}).(*server.Catalog)
}

// callEntry returns the entry of [CallTool]. It requires the scopes of all tools, since it can
// call any of them.
func (p *provider) callEntry(source *server.Catalog) *server.Entry {
	all, tasks := make(map[string]bool), server.TaskForbidden
	for e := range source.All(mcp.KindTool) {
		if e.Task != server.TaskForbidden {
			tasks = server.TaskOptional
		}
		for _, scope := range e.Scopes {
			all[scope] = true
		}
	}
	scopes := slices.Sorted(maps.Keys(all))
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.call.Scopes, scopes) || p.call.Task != tasks {
		call := *p.call
		call.Scopes, call.Task = scopes, tasks
		p.call = &call
	}
	return p.call
}

// Run runs the source. It does not report changes of tools, since the two tools do not change.
func (p *provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	return p.source.Provider().Run(ctx, ready, func(change mcp.Change) {
		if change.Kind != mcp.KindTool {
			changed(change)
		}
	})
}

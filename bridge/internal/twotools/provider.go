package twotools

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// MaxFound is how many tools of a catalog can be found. All can be called.
const MaxFound = 10_000

// A provider offers two tools in place of the tools of a source, and the other entries of the source unchanged.
type provider struct {
	source server.Provider
	owner  string
	find   *server.Entry
	logger *slog.Logger

	mu   sync.Mutex
	call *server.Entry // its scopes are the scopes of all tools together
}

// New returns a provider with the entries of two tools in place of the tools of source, and the other entries of source. It runs
// source, and may be used concurrently. owner names the package of the two tools in errors. A nil logger means slog.Default().
func New(owner string, source server.Provider, find, call *server.Entry, logger *slog.Logger) server.Provider {
	return &provider{source: source, owner: owner, find: find, call: call, logger: cmp.Or(logger, slog.Default())}
}

// Catalog returns the two tools and the current other entries of the source.
func (p *provider) Catalog() *server.Catalog {
	source := p.source.Catalog()
	return source.Memo(p, func() any {
		if hidden := source.Len(mcp.KindTool) - MaxFound; hidden > 0 {
			p.logger.Warn("some tools can be called and not found", "tools", hidden, "limit", MaxFound)
		}
		tools := server.NewCatalog([]*server.Entry{p.find, p.callEntry(source)}, nil)
		others := source.Map(func(e *server.Entry) *server.Entry {
			if e.Kind == mcp.KindTool {
				return nil
			}
			return e
		})
		return server.Merge(nil, server.Part{Owner: p.owner, Catalog: tools}, server.Part{Owner: "the source", Catalog: others})
	}).(*server.Catalog)
}

// callEntry returns the entry of the tool that calls tools. It requires the scopes of all tools, since it can call any of them,
// and its calls may continue as tasks if those of any tool may.
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
		changed := *p.call
		changed.Scopes, changed.Task = scopes, tasks
		p.call = &changed
	}
	return p.call
}

// Run runs the source. It does not report changes of tools, since the two tools do not change.
func (p *provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	return p.source.Run(ctx, ready, func(change mcp.Change) {
		if change.Kind != mcp.KindTool {
			changed(change)
		}
	})
}

package code

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A provider offers [SearchTool] and [ScriptTool] in place of the tools of a source.
type provider struct {
	options Options
	shared  bool           // Options.Store was set
	source  *server.Server // mounts the source behind the guards and middleware
	search  *server.Entry
	records state.Records[savedRun]
	results state.Records[json.RawMessage] // that are large
	open    *quota.Quota
	turns   *turns

	mu     sync.Mutex
	script *server.Entry // its scopes are the scopes of all tools together
}

var _ server.Provider = (*provider)(nil)

// New returns a provider with [SearchTool] and [ScriptTool] in place of the tools of source. Other entries are offered
// unchanged. Mount the provider with [server.Server.Mount]. It runs source, and may be used concurrently.
//
// The error says that there is no engine, or is a *[server.CollisionError] if source has two entries of one name.
func New(source server.Provider, opts *Options) (server.Provider, error) {
	if opts == nil || opts.Engine == nil {
		return nil, errors.New("code: Options.Engine is missing")
	}
	p := &provider{options: *opts, shared: opts.Store != nil}
	o := &p.options
	o.Limits = o.Limits.withDefaults(p.shared)
	if err := o.Limits.check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if !p.shared {
		memory, err := store.NewMemory(nil)
		if err != nil {
			return nil, err
		}
		o.Store = memory
	}
	p.records = state.NewRecords[savedRun](o.Store, nil)
	p.results = state.NewRecords[json.RawMessage](o.Store, nil)
	p.open = quota.New("scripts", o.Limits.Open, max(1, o.Limits.Open/8))
	p.turns = newTurns(o.Limits.Running)
	var err error
	if p.search, p.script, err = newTools(p); err != nil {
		return nil, err
	}
	p.source = server.New(mcp.Implementation{Name: "code"}, &server.Options{
		Guards: o.Guards, CallMiddleware: append(slices.Clone(o.CallMiddleware), claim), Logger: o.Logger,
	})
	return p, p.source.Mount(source, nil)
}

// Catalog returns the two tools and the current other entries of the source.
func (p *provider) Catalog() *server.Catalog {
	source := p.source.Provider().Catalog()
	return source.Memo(p, func() any {
		tools := server.NewCatalog([]*server.Entry{p.search, p.scriptEntry(source)}, nil)
		others := source.Map(func(e *server.Entry) *server.Entry {
			if e.Kind == mcp.KindTool {
				return nil
			}
			return e
		})
		return server.Merge(nil, server.Part{Owner: "code", Catalog: tools}, server.Part{Owner: "the source", Catalog: others})
	}).(*server.Catalog)
}

// scriptEntry returns the entry of [ScriptTool]. It requires the scopes of all tools, since a script can call any of them, and
// its calls may continue as tasks if those of any tool may.
func (p *provider) scriptEntry(source *server.Catalog) *server.Entry {
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
	if !slices.Equal(p.script.Scopes, scopes) || p.script.Task != tasks {
		changed := *p.script
		changed.Scopes, changed.Task = scopes, tasks
		p.script = &changed
	}
	return p.script
}

// Run runs the source. It does not report changes of tools, since the two tools do not change.
func (p *provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	return p.source.Provider().Run(ctx, ready, func(change mcp.Change) {
		if change.Kind != mcp.KindTool {
			changed(change)
		}
	})
}

package code

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A provider handles the calls of [SearchTool] and [ScriptTool].
type provider struct {
	options Options
	shared  bool           // Options.Store was set
	source  *server.Server // mounts the source behind the guards and middleware
	records state.Records[savedRun]
	results state.Records[json.RawMessage] // that are large
	open    *quota.Quota
	turns   *turns
}

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
	p.source = server.New(mcp.Implementation{Name: "code"}, &server.Options{
		Guards: o.Guards, CallMiddleware: append(slices.Clone(o.CallMiddleware), claim), Logger: o.Logger,
	})
	search, script, err := p.newTools()
	if err != nil {
		return nil, err
	}
	return twotools.New("code", p.source.Provider(), search, script, o.Logger), p.source.Mount(source, nil)
}

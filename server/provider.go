package server

import (
	"context"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Provider is a changing set of entries: what another server offers, a remote one, a
// directory. Its methods may be called concurrently.
type Provider interface {
	// Catalog returns what is offered now. It does not wait. It returns the same pointer
	// until something changes.
	Catalog() *Catalog

	// Run does what the provider has to do while it is in use, until ctx ends. It calls
	// ready once, as soon as its catalog holds what there is to offer at the start: the
	// server that it is mounted on waits for that, for at most a minute. It calls changed
	// after each change of the catalog, or of a resource. Neither function waits. An error
	// before ready is one of the server's start; a later one is logged.
	Run(ctx context.Context, ready func(), changed func(mcp.Change)) error
}

// Provider returns the server as a provider, for [Server.Mount] and all else that takes
// one: its entries keep their guards, visibility, scopes and subscriptions, and calls to
// them pass its Middleware. Run starts the server, and shuts it down at the end.
func (s *Server) Provider() Provider { return serverProvider{s} }

type serverProvider struct{ *Server }

func (p serverProvider) Catalog() *Catalog { return p.exported.apply(p.Server.Catalog()) }

func (p serverProvider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	defer p.changes.watchAll(changed)()
	err := p.Start(ctx)
	if err == nil {
		ready()
		<-ctx.Done()
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if stopErr := p.Shutdown(stopping); err == nil {
		err = stopErr
	}
	return err
}

// export returns an entry as others get it.
func (s *Server) export(e *Entry) *Entry {
	exported := *e
	exported.Handle, exported.Complete = s.serveEntry(e, e.Handle), s.serveEntry(e, e.Complete)
	return &exported
}

// serveEntry returns a handler for calls that another server has received.
func (s *Server) serveEntry(e *Entry, handle mcp.Handler) mcp.Handler {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if !s.calls.start() {
			return nil, errStopping
		}
		defer s.calls.finish()
		if len(s.options.Middleware) == 0 {
			return handle(ctx, call)
		}
		inner, err := call.Enter(&e.Target, nil, s.recheckIn)
		if err != nil {
			return nil, err
		}
		inner.Set(s, newResolved(inner, e, nil))
		return s.handle(ctx, inner)
	}
}

// core is the server as the eras see it.
type core struct{ *Server }

// Failed logs an error that its caller is not shown.
func (c core) Failed(method string, err error) error {
	return c.internalError("a call failed", "method", method, "error", err)
}

// Stopping is closed when the server shuts down.
func (c core) Stopping() <-chan struct{} { return c.stopping }

// Describe says what the server is, and begins to start it. It does not wait: a server that
// has not started yet may come to have anything, and so declares all kinds. The error is
// that of a server that could not be started.
func (c core) Describe() (*era.Description, error) {
	started, err := c.life.started()
	if err != nil {
		return nil, err
	}
	catalog, state := c.Catalog(), 0
	if started {
		state = 1
	}
	if d := catalog.described[state].Load(); d != nil {
		return d, nil
	}
	hint := c.options.CacheHint
	if catalog.hides() {
		hint.Scope = mcp.CachePrivate
	}
	catalog.described[state].CompareAndSwap(nil, &era.Description{
		Info: c.info, Capabilities: c.capabilities(catalog, !started || catalog.partial),
		Instructions: c.options.Instructions, CacheHint: hint,
	})
	return catalog.described[state].Load(), nil
}

// capabilities are those declared, or those of what there is; all kinds if there may be more.
func (s *Server) capabilities(c *Catalog, more bool) mcp.ServerCapabilities {
	if s.options.Capabilities != nil {
		return *s.options.Capabilities
	}
	has := mcp.ServerCapabilities{Logging: &mcp.LoggingCapability{}}
	if more || c.Len(mcp.KindTool) > 0 {
		has.Tools = &mcp.ToolsCapability{ListChanged: true}
	}
	if more || c.Len(mcp.KindPrompt) > 0 {
		has.Prompts = &mcp.PromptsCapability{ListChanged: true}
	}
	if more || c.Len(mcp.KindResource)+c.Len(mcp.KindResourceTemplate) > 0 {
		has.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	if more || c.completes() {
		has.Completions = &mcp.CompletionsCapability{}
	}
	return has
}

// completes reports whether anything is completed.
func (c *Catalog) completes() bool {
	for _, kind := range []mcp.Kind{mcp.KindPrompt, mcp.KindResourceTemplate} {
		for e := range c.All(kind) {
			if e.Complete != nil {
				return true
			}
		}
	}
	return false
}

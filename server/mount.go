package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Provider is a changing set of entries, for example the entries of another server, of a remote server
// or of a directory. Its methods are called concurrently.
type Provider interface {
	// Catalog returns the entries that are offered now. It does not block. It returns the same
	// pointer until an entry changes.
	Catalog() *Catalog

	// Run runs the provider until ctx ends. It is called once for each mount.
	//
	// Run calls ready when the catalog has its first entries. A server that is starting waits for
	// that, at most one minute. After each change of the catalog, or of a resource, Run calls
	// changed. Both functions may be called concurrently and do not block.
	//
	// An error before ready fails the start of the server. A later error is logged. Run returns
	// nil, or the error of ctx, when ctx has ended.
	Run(ctx context.Context, ready func(), changed func(mcp.Change)) error
}

// Provider returns the server as a provider, for [Server.Mount] and other consumers. Its entries
// keep their guards, visibility, scopes and subscriptions. Calls to them pass through the server's
// Middleware. Run starts the server and shuts it down at the end. If the server has dependencies or
// mounts, a call before that fails with an error that says so.
func (s *Server) Provider() Provider { return serverProvider{s} }

type serverProvider struct{ *Server }

func (p serverProvider) Catalog() *Catalog { return p.exported.apply(p.Server.Catalog()) }

func (p serverProvider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	p.watchReplicas(ctx)
	defer p.rootsClients.mount(ctx)()
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

// export returns an entry for other servers.
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
		if !s.calls.begin() {
			return nil, errStopping
		}
		defer s.calls.end()
		if !s.life.ready.Load() && len(s.options.Dependencies)+len(s.mounted()) > 0 {
			return nil, fmt.Errorf("the server %.80q was not started: mount its Provider on a server, or run the Provider", s.info.Name)
		}
		if len(s.options.Middleware) == 0 {
			return handle(ctx, call)
		}
		inner, err := call.Enter(&e.Target, nil, s.recheckFunc)
		if err != nil {
			return nil, err
		}
		inner.Set(s, s.newResolution(inner, e, nil))
		return s.handle(ctx, inner)
	}
}

// MountOptions configures [Server.Mount]. The zero value is valid.
type MountOptions struct {
	// Prefix is added to the names of tools, prompts and events. It has up to 127 characters of A–Z a–z 0–9
	// _ - and dot. URIs do not change.
	Prefix string
	// Guards and CallMiddleware apply to every mounted entry, inside the guards and middleware of the server
	// and outside the entry's own.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that calls to mounted entries need in addition to the entry's own. Metadata
	// is added to the targets of mounted entries; an entry's own value takes precedence.
	Scopes   []string
	Metadata map[string]any
}

// Mount adds the entries of a provider to the server. To mount another server, use its
// [Server.Provider]. Mounted entries keep their guards and middleware, inside the guards and middleware of this server.
// The provider runs until this server is shut down. On a server that has started, Mount returns
// when the provider is ready. opts may be nil. Mount may be called concurrently.
//
// The error is a *[CollisionError] if a name or URI is taken already. It is only logged if a resource
// of a mounted bridge has the URI of an earlier one, since other servers choose the URI. Other errors say that an
// option or an entry is invalid, or that the provider failed. If names collide later, while the
// server is running, the entry that had the name first keeps it, and the other is logged; see
// [Merge].
func (s *Server) Mount(p Provider, opts *MountOptions) error {
	m := &mount{provider: p}
	if opts != nil {
		m.MountOptions = *opts
	}
	if other, ok := p.(serverProvider); ok && (other.Server == s || other.Server.hasMounted(s)) {
		return errors.New("a server cannot be mounted in itself")
	}
	if m.Prefix != "" && checkName(mcp.KindTool, m.Prefix+"x") != nil {
		return fmt.Errorf("the prefix %.40q: it consists of A–Z a–z 0–9 _ - and dot, and is shorter than a name", m.Prefix)
	}
	if err := checkGuards(m.Guards); err != nil {
		return err
	}
	m.guards = slices.Concat(s.options.Guards, m.Guards)
	m.middleware = slices.Concat(s.options.CallMiddleware, m.CallMiddleware)
	var invalid error // of the entries offered while mounting
	mounting := true
	m.mapping = newMapping(func(e *Entry) *Entry {
		mounted, err := m.entry(s, e)
		switch {
		case err != nil && mounting:
			invalid = errors.Join(invalid, err)
		case err != nil:
			s.options.Logger.Warn("an entry of a mounted provider is not offered", "owner", m.owner, "error", err)
		}
		return mounted
	})
	m.mapping.sourceName = m.providerName
	offered := p.Catalog()
	m.mapping.apply(offered)
	if mounting = false; invalid != nil {
		return invalid
	}
	if err := s.life.addMount(m); err != nil {
		return err
	}
	s.notifyLists(slices.Concat(offered.entries[:]...))
	return nil
}

// hasMounted reports whether other is mounted on this server, directly or indirectly.
func (s *Server) hasMounted(other *Server) bool {
	return slices.ContainsFunc(s.mounted(), func(m *mount) bool {
		p, ok := m.provider.(serverProvider)
		return ok && (p.Server == other || p.Server.hasMounted(other))
	})
}

// A mount is a provider whose entries a server offers.
type mount struct {
	MountOptions
	provider   Provider
	owner      string
	guards     []mcp.Guard
	middleware []mcp.Middleware
	mapping    *mapping
}

func (m *mount) part() Part { return Part{m.owner, m.mapping.apply(m.provider.Catalog())} }

// entry returns an entry of the provider as the server offers it.
func (m *mount) entry(s *Server, e *Entry) (*Entry, error) {
	mounted := *e
	mounted.Name = m.mountedName(e.Kind, e.Name)
	renamed := mounted.Name != e.Name
	if renamed {
		if err := checkName(e.Kind, mounted.Name); err != nil {
			return nil, err
		}
	}
	if e.Definition != nil || m.provider.Catalog().has(e) { // unlisted entries may have no definition
		definition, err := m.definition(e, mounted.Name)
		if err != nil {
			return nil, fmt.Errorf("the %v %.256q: its definition: %w", e.Kind, e.Name, err)
		}
		if e.Kind == mcp.KindEvent {
			if definition, err = withDelivery(s, definition); err != nil {
				return nil, fmt.Errorf("the event %.256q: %w", e.Name, err)
			}
		}
		mounted.Definition = definition
	}
	if renamed || len(m.guards)+len(m.middleware) > 0 {
		mounted.Handle, mounted.Complete = m.forwardTo(e, e.Handle), m.forwardTo(e, e.Complete)
		mounted.Subscribe = m.forwardSubscribe(e)
	} else if mounted.Definition == e.Definition && len(m.Scopes)+len(m.Metadata)+len(s.options.Scopes)+len(s.options.Metadata) == 0 {
		return e, nil
	}
	return mounted.withRequirements(m.Scopes, m.Metadata).withRequirements(s.options.Scopes, s.options.Metadata).Wrap(m.guards, m.middleware), nil
}

// definition returns the definition of an entry with its name on the server.
func (m *mount) definition(e *Entry, name string) (*mcp.Definition, error) {
	if name == e.Name {
		_, err := jsonscan.ReadObject(e.Definition.JSON())
		return e.Definition, err
	}
	renamed, err := jsonscan.Splice(nil, e.Definition.JSON(), jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, name)})
	return mcp.NewDefinition(renamed), err
}

// mountedName returns the name on the server for a name at the provider.
func (m *mount) mountedName(kind mcp.Kind, name string) string {
	if kinds[kind].named {
		return m.Prefix + name
	}
	return name
}

// providerName is the inverse of mountedName.
func (m *mount) providerName(kind mcp.Kind, name string) (string, bool) {
	if kinds[kind].named {
		return strings.CutPrefix(name, m.Prefix)
	}
	return name, true
}

// forwardTo returns a handler that passes a call to an entry of the provider, with the target and
// name that the entry has there. All other bytes stay unchanged.
func (m *mount) forwardTo(e *Entry, handle mcp.Handler) mcp.Handler {
	if handle == nil {
		return nil
	}
	recheck := m.recheck
	quoted := json.RawMessage(jsonscan.AppendString(nil, e.Name))
	renamed := m.mountedName(e.Kind, e.Name) != e.Name
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		var params json.RawMessage
		if renamed {
			var err error
			if params, err = replaceName(call, quoted); err != nil {
				return nil, err
			}
		}
		inner, err := call.Enter(&e.Target, params, recheck)
		if err != nil {
			return nil, err
		}
		return handle(ctx, inner)
	}
}

// forwardSubscribe is forwardTo for subscriptions.
func (m *mount) forwardSubscribe(e *Entry) func(context.Context, *mcp.Call) (func(), error) {
	if e.Subscribe == nil {
		return nil
	}
	return func(ctx context.Context, call *mcp.Call) (func(), error) {
		inner, err := call.Enter(&e.Target, nil, m.recheck)
		if err != nil {
			return nil, err
		}
		return e.Subscribe(ctx, inner)
	}
}

func (m *mount) recheck(ctx context.Context, t *mcp.Target) error {
	return m.provider.Catalog().recheck(ctx, t)
}

// replaceName returns the params of a call with another name of the entry.
func replaceName(call *mcp.Call, quoted json.RawMessage) (json.RawMessage, error) {
	edit := jsonscan.Edit{Name: "name", Value: quoted}
	if call.Method() == mcp.MethodComplete {
		ref, err := jsonscan.Splice(nil, call.Member("ref"), edit)
		if err != nil {
			return nil, err
		}
		edit = jsonscan.Edit{Name: "ref", Value: ref}
	}
	params := call.Params()
	return jsonscan.Splice(make(json.RawMessage, 0, len(params)), params, edit)
}

// start runs the provider and waits until it is ready. stop ends the provider and waits for it. It
// must be called after an error too.
func (m *mount) start(ctx context.Context, s *Server) (stop func(context.Context) error, err error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- m.run(running, s, sync.OnceFunc(func() { close(ready) })) }()
	stop = func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-ready:
		return stop, nil
	case err := <-ended:
		select {
		case <-ready:
			ended <- err // for stop
			return stop, nil
		default:
		}
		ended <- nil
		if err == nil {
			return stop, nil // Run has nothing to do
		}
		return stop, fmt.Errorf("starting %w", err)
	case <-ctx.Done():
		return stop, fmt.Errorf("starting %s: %w", m.owner, context.Cause(ctx))
	}
}

// run calls the provider's Run. It logs a failure that happens after the start.
func (m *mount) run(ctx context.Context, s *Server, ready func()) (err error) {
	var isReady atomic.Bool
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil
		}
		if err == nil {
			return
		}
		err = fmt.Errorf("%s: %w", m.owner, err)
		if isReady.Load() {
			s.options.Logger.Error("a mounted provider has failed", "error", err)
		}
	}()
	return m.provider.Run(s.rootsClients.context(ctx), func() {
		isReady.Store(true)
		ready()
	}, func(change mcp.Change) {
		if s.life.ready.Load() { // no client has read anything before
			s.changes.notify(change)
		}
	})
}

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

// MountOptions configure [Server.Mount]. The zero value is good.
type MountOptions struct {
	// Prefix precedes the names of tools and prompts: up to 127 of A–Z a–z 0–9 _ - and
	// dot. URIs stay as they are.
	Prefix string
	// Guards and CallMiddleware surround everything that is mounted, inside of those of
	// the server.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that calls need in addition; Metadata is added to targets.
	Scopes   []string
	Metadata map[string]any
}

// Mount offers everything of a provider too: of another server by its
// [Server.Provider]. What surrounds the entries of the provider surrounds them here as
// well, inside of what surrounds those of this server, and their names and URIs are
// looked up by this server. The provider runs as long as this server: on one that has
// started, Mount returns when the provider is ready. opts may be nil.
//
// The error is a *[CollisionError] if a name or URI is there already, or says what is
// wrong with the options. Later, when two parts of a server that serves come to offer the
// same, the one that had it first keeps it, and the other is logged: see [Merge].
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
	var invalid error // of what is offered while mounting
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
	m.mapping.inner = m.inner
	offered := p.Catalog()
	m.mapping.apply(offered)
	if mounting = false; invalid != nil {
		return invalid
	}
	if err := s.life.include(m); err != nil {
		return err
	}
	s.notifyLists(slices.Concat(offered.entries[:]...))
	return nil
}

// hasMounted reports whether a server is mounted on this one, at any depth.
func (s *Server) hasMounted(other *Server) bool {
	return slices.ContainsFunc(s.mounted(), func(m *mount) bool {
		p, ok := m.provider.(serverProvider)
		return ok && (p.Server == other || p.Server.hasMounted(other))
	})
}

// A mount is a provider beside the server's own registry.
type mount struct {
	MountOptions
	provider   Provider
	owner      string // of its part
	guards     []mcp.Guard
	middleware []mcp.Middleware
	mapping    *mapping
}

func (m *mount) part() Part { return Part{m.owner, m.mapping.apply(m.provider.Catalog())} }

// entry returns an entry of the provider as it is offered by the server.
func (m *mount) entry(s *Server, e *Entry) (*Entry, error) {
	mounted := *e
	mounted.Name = m.outer(e.Kind, e.Name)
	renamed := mounted.Name != e.Name
	if renamed {
		if err := checkName(e.Kind, mounted.Name); err != nil {
			return nil, err
		}
	}
	if e.Definition != nil || m.provider.Catalog().index[e.Kind][e.Name] == e { // one that is in no list may have none
		definition, err := m.definition(e, mounted.Name)
		if err != nil {
			return nil, fmt.Errorf("the %v %.256q: its definition: %w", e.Kind, e.Name, err)
		}
		mounted.Definition = definition
	}
	if renamed || len(m.guards)+len(m.middleware) > 0 {
		mounted.Handle, mounted.Complete = m.enter(e, e.Handle), m.enter(e, e.Complete)
		mounted.Subscribe = m.enterSubscribe(e)
	} else if len(m.Scopes)+len(m.Metadata)+len(s.options.Scopes)+len(s.options.Metadata) == 0 {
		return e, nil
	}
	return mounted.require(m.Scopes, m.Metadata).require(s.options.Scopes, s.options.Metadata).Wrap(m.guards, m.middleware), nil
}

// definition returns the definition of an entry under its name on the server.
func (m *mount) definition(e *Entry, name string) (*mcp.Definition, error) {
	if name == e.Name {
		_, err := jsonscan.ReadObject(e.Definition.JSON())
		return e.Definition, err
	}
	renamed, err := jsonscan.Splice(nil, e.Definition.JSON(), jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, name)})
	return mcp.NewDefinition(renamed), err
}

// outer returns the name on the server of what has a name at the provider.
func (m *mount) outer(kind mcp.Kind, name string) string {
	if kind == mcp.KindTool || kind == mcp.KindPrompt {
		return m.Prefix + name
	}
	return name
}

// inner is the inverse of outer.
func (m *mount) inner(kind mcp.Kind, name string) (string, bool) {
	if kind == mcp.KindTool || kind == mcp.KindPrompt {
		return strings.CutPrefix(name, m.Prefix)
	}
	return name, true
}

// enter returns a handler that passes a call on to an entry of the provider, with the
// target and the name that the entry has there. All other bytes stay as they are.
func (m *mount) enter(e *Entry, handle mcp.Handler) mcp.Handler {
	if handle == nil {
		return nil
	}
	recheck := m.recheck
	quoted := json.RawMessage(jsonscan.AppendString(nil, e.Name))
	renamed := m.outer(e.Kind, e.Name) != e.Name
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		var params json.RawMessage
		if renamed {
			var err error
			if params, err = withName(call, quoted); err != nil {
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

// enterSubscribe is enter for subscriptions.
func (m *mount) enterSubscribe(e *Entry) func(context.Context, *mcp.Call) (func(), error) {
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

// withName returns the params of a call with another name of what it is for.
func withName(call *mcp.Call, quoted json.RawMessage) (json.RawMessage, error) {
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

// start has the provider run, and waits until it is ready. stop ends it, also after an
// error, and returns when it has ended.
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
			ended <- err // of serving, which stop returns
			return stop, nil
		default:
		}
		ended <- nil
		if err == nil {
			return stop, nil // it has nothing to do
		}
		return stop, fmt.Errorf("starting %w", err)
	case <-ctx.Done():
		return stop, fmt.Errorf("starting %s: %w", m.owner, context.Cause(ctx))
	}
}

// run is the provider's Run. That it fails after its start is logged when it does.
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
	return m.provider.Run(ctx, func() {
		isReady.Store(true)
		ready()
	}, func(change mcp.Change) {
		if s.life.ready.Load() { // before, no client has read anything
			s.changes.notify(change)
		}
	})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

// Mount offers everything of another server too. The prefix stands before the names
// of its tools and prompts; URIs stay as they are. What stands around the child's
// functions, at the child itself as well, stands around them here, within what stands
// around this server. The child's changes are this server's, and so is its life: it is
// started and shut down with this server, and sees its own dependencies only. On a
// server that has been started, Mount starts the child first.
//
// The error is a *[CollisionError], when a name or URI is there already, or says why
// the prefix is none: it consists of A–Z a–z 0–9 _ - and dot, and may be empty. From
// then on the child too refuses to register what would collide here.
func (s *Server) Mount(child *Server, prefix string) error {
	if child == s || child.contains(s) {
		return errors.New("a server cannot be mounted in itself")
	}
	return s.mount(&mount{provider: child.Provider(), prefix: prefix, child: child})
}

// MountProvider offers everything that a provider has, as [Server.Mount] does of a
// server. Its Run begins when the server starts, and ends when it is shut down; that
// it fails before is logged. Of two providers that come to offer the same while the
// server serves, the first keeps it, and the other's is logged and not offered.
func (s *Server) MountProvider(p Provider, prefix string) error {
	return s.mount(&mount{provider: p, prefix: prefix})
}

func (s *Server) contains(other *Server) bool {
	return slices.ContainsFunc(s.provider.mounted(), func(m *mount) bool {
		return m.child != nil && (m.child == other || m.child.contains(other))
	})
}

func (s *Server) mount(m *mount) error {
	if m.prefix != "" {
		if err := checkName(toolKind, m.prefix); err != nil {
			return fmt.Errorf("the prefix %.40q: it consists of A–Z a–z 0–9 _ - and dot, and is shorter than a name", m.prefix)
		}
	}
	if err := s.life.include(m); err != nil {
		return err
	}
	told := make(map[mcp.Kind]bool)
	for kind := range m.provider.Catalogue().all() {
		if change := kind.change(); !told[change] {
			told[change] = true
			s.changes.tell(mcp.Change{Kind: change})
		}
	}
	return nil
}

// A mount is a provider beside the server's own registry.
type mount struct {
	provider Provider
	prefix   string
	child    *Server // whose offer the provider is, or nil
}

// outside is the key of what the provider offers. The registry, which is no mount,
// changes nothing.
func (m *mount) outside(key entryKey) entryKey {
	if m != nil && key.isPrefixed() {
		key.name = m.prefix + key.name
	}
	return key
}

// inside is the key that the provider has for something, if it is its own at all.
func (m *mount) inside(key entryKey) (inside entryKey, ok bool) {
	if !key.isPrefixed() {
		return key, true
	}
	key.name, ok = strings.CutPrefix(key.name, m.prefix)
	return key, ok
}

// isPrefixed says whether a prefix stands before the name: that of a tool, a prompt or
// the completion of a prompt.
func (k entryKey) isPrefixed() bool {
	kind := k.about().kind
	return kind == toolKind || kind == promptKind
}

// start has the provider run. What it returns ends that, after an error too; it may
// be nil.
func (m *mount) start(ctx context.Context, s *Server) (stop func(context.Context) error, err error) {
	if m.child != nil {
		return m.startChild(ctx, s)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- m.run(running, s) }()
	stop = func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if starter, ok := m.provider.(Starter); ok {
		if err := starter.Started(ctx); err != nil {
			return stop, fmt.Errorf("starting what is mounted as %q: %w", m.prefix, err)
		}
	}
	return stop, nil
}

func (m *mount) startChild(ctx context.Context, s *Server) (stop func(context.Context) error, err error) {
	if err := m.child.Start(ctx); err != nil {
		return m.child.Shutdown, fmt.Errorf("starting what is mounted as %q: %w", m.prefix, err)
	}
	unwatch := m.child.changes.watchAll(s.changes.tell)
	return func(ctx context.Context) error {
		unwatch()
		return m.child.Shutdown(ctx)
	}, nil
}

// run is the provider's Run, of which the operator learns at once when it fails.
func (m *mount) run(ctx context.Context, s *Server) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("running what is mounted as %q: %w", m.prefix, err)
			s.options.Logger.Error("something mounted has failed", "error", err)
		}
	}()
	return m.provider.Run(ctx, s.changes.tell)
}

// Provider returns the server as a provider, with all that stands around it: for what
// takes a provider, such as another program's faces. It runs with the server, which has to
// be started for itself.
func (s *Server) Provider() Provider { return (*offer)(s) }

// offer is a server as a provider: with all that stands around it.
type offer Server

func (o *offer) Catalogue() *Catalogue { return o.provider.Catalogue() }

func (o *offer) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	return core{(*Server)(o)}.Serve(ctx, call)
}

func (o *offer) Scopes(method, name string) []string { return (*Server)(o).Scopes(method, name) }

func (o *offer) Run(ctx context.Context, changed func(mcp.Change)) error {
	defer o.changes.watchAll(changed)()
	<-ctx.Done()
	return nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// A CollisionError says that two parts of a server offer something of one name, or a
// resource with one URI.
type CollisionError struct {
	// Kind is "tool", "resource", "resource template" or "prompt".
	Kind string
	// Name is the name, with its prefix, or the URI.
	Name string
}

// Error names what collides.
func (e *CollisionError) Error() string {
	return fmt.Sprintf("there are two of the %s %.256q; another prefix keeps mounted ones apart", e.Kind, e.Name)
}

// Mount offers everything of another server too. The prefix stands before the names
// of its tools and prompts; URIs stay as they are. What stands around the child's
// functions, at the child itself as well, stands around them here, within what stands
// around this server. The child's changes are this server's, and so is its life: it is
// started and shut down with this server, and sees its own dependencies only.
//
// The error is a *[CollisionError], when a name or URI is there already, or says why
// the prefix is none: it consists of A–Z a–z 0–9 _ - and dot, and may be empty.
func (s *Server) Mount(child *Server, prefix string) error {
	if child == s || child.contains(s) {
		return errors.New("a server cannot be mounted in itself")
	}
	return s.mount(&mount{provider: (*offer)(child), prefix: prefix, child: child})
}

// MountProvider offers everything that a provider has, as [Server.Mount] does of a
// server. Its Run begins when the server starts, and ends when it is shut down.
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
			return fmt.Errorf("the prefix %q: it consists of A–Z a–z 0–9 _ - and dot, and is shorter than a name", m.prefix)
		}
	}
	if err := s.provider.add(m); err != nil {
		return err
	}
	if s.life.ready.Load() {
		stop, err := m.start(context.Background(), s.changes.tell)
		if err != nil {
			return fmt.Errorf("starting what is mounted as %q: %w", m.prefix, err)
		}
		s.life.add(stop)
	}
	for _, kind := range []mcp.ChangeKind{mcp.ToolsChanged, mcp.PromptsChanged, mcp.ResourcesChanged} {
		s.changes.tell(mcp.Change{Kind: kind})
	}
	return nil
}

// A mount is a provider beside the server's own registry.
type mount struct {
	provider Provider
	prefix   string
	child    *Server // whose offer the provider is, or nil
}

// start has the provider run. What it returns ends that.
func (m *mount) start(ctx context.Context, changed func(mcp.Change)) (stop func(context.Context) error, err error) {
	if m.child != nil {
		if err := m.child.Start(ctx); err != nil {
			return nil, err
		}
		unwatch := m.child.changes.watchAll(changed)
		return func(ctx context.Context) error {
			unwatch()
			return m.child.Shutdown(ctx)
		}, nil
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- m.provider.Run(running, changed) }()
	return func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, nil
}

// offer is a server as a provider: with all that stands around it.
type offer Server

func (o *offer) Catalogue() *Catalogue { return o.provider.Catalogue() }

func (o *offer) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	return core{(*Server)(o)}.Serve(ctx, call)
}

func (o *offer) Run(ctx context.Context, changed func(mcp.Change)) error {
	defer o.changes.watchAll(changed)()
	<-ctx.Done()
	return nil
}

func (o *offer) hides() bool { return o.provider.hides() }

func (o *offer) isVisible(ctx context.Context, key entryKey, list *mcp.Call) bool {
	return o.provider.isVisible(ctx, key, list)
}

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Options configure a [Bridge]. The zero value is good.
type Options struct {
	// Name returns the name that a server's tool or prompt has here. It must depend on
	// nothing else, and give no two of them one name: see [Bridge.Run]. A server that has
	// not been listed yet is waited for when a name is called that begins with its name
	// for "". Default [Name].
	Name func(alias, name string) string
	// Guards and CallMiddleware surround everything that the bridge offers: calls by
	// clients of the server that it is mounted on, and those by [Bridge.CallTool] and
	// [Bridge.Handler]. Guards decide as well what [Bridge.Tools] and [Bridge.Functions]
	// list. Guards of the server that the bridge is mounted on are asked for calls that
	// come by that server only.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// StartPatience is how long a start waits for servers that are not required. What
	// they offer later is a change. Default 4 s, which is less than clients wait for a
	// first answer.
	StartPatience time.Duration
	// Logger takes starts, ends and failures. Default slog.Default().
	Logger *slog.Logger
}

// A Bridge is many servers behind one face: a server.Provider of all they offer, and
// the same for Go programs. Make one with [New]. Its methods may be called concurrently.
type Bridge struct {
	opts Options

	update  sync.Mutex      // of who changes which servers there are
	mu      sync.Mutex      // of what follows
	running context.Context // of the servers; nil while none may run
	changed func(mcp.Change)
	group   sync.WaitGroup // of the servers that run

	suspended *client.SuspendedCalls
	members   atomic.Pointer[[]*member]
	merged    atomic.Pointer[server.Catalog]
	server    *server.Server // has the members mounted, within guards and middleware
}

// A member is a server of the bridge.
type member struct {
	*Upstream
	config Config
	stop   func() // and waits; nil if it was never launched
}

// New returns a bridge to servers, of which none is started yet. Mount it on a server,
// or call [Bridge.Start]. The error names an alias that is invalid or given twice, or is a
// *[server.CollisionError] of tools or prompts in cached catalogs.
func New(opts *Options, configs ...Config) (*Bridge, error) {
	b := &Bridge{suspended: client.NewSuspendedCalls()}
	if opts != nil {
		b.opts = *opts
	}
	setDefault(&b.opts.StartPatience, 4*time.Second)
	if b.opts.Logger == nil {
		b.opts.Logger = slog.Default()
	}
	if err := check(configs); err != nil {
		return nil, err
	}
	members, _ := b.successors(nil, configs)
	b.merged.Store(&server.Catalog{})
	if err := checkNames(b.merged.Load(), members); err != nil {
		return nil, err
	}
	b.members.Store(&members)
	b.server = server.New(mcp.Implementation{Name: "bridge"}, &server.Options{
		Guards: b.opts.Guards, CallMiddleware: b.opts.CallMiddleware, Logger: b.opts.Logger,
	})
	return b, b.server.Mount(merged{b}, nil)
}

// Catalog returns what all servers offer now. Servers that do not run offer what they did
// when they last ran.
func (b *Bridge) Catalog() *server.Catalog { return b.server.Provider().Catalog() }

// merged are the members of a bridge as one provider. [Bridge.Run] runs them.
type merged struct{ *Bridge }

func (m merged) Catalog() *server.Catalog {
	for {
		before := m.Bridge.merged.Load()
		now := merge(before, *m.members.Load())
		if now == before {
			return now
		}
		if m.Bridge.merged.CompareAndSwap(before, now) {
			logNew(m.opts.Logger, before.Collisions(), now.Collisions())
			return now
		}
	}
}

func (m merged) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

func check(configs []Config) error {
	seen := make(map[string]bool)
	for _, config := range configs {
		if err := checkAlias(config.Alias); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		if seen[config.Alias] {
			return fmt.Errorf("bridge: there are two servers with the alias %q", config.Alias)
		}
		seen[config.Alias] = true
		if config.Dialer == nil && config.DialAs == nil {
			return fmt.Errorf("bridge: the server %q has no Dialer", config.Alias)
		}
	}
	return nil
}

func (b *Bridge) newMember(config Config) *member {
	opts := config.ProxyOptions
	if opts.Logger == nil {
		opts.Logger = b.opts.Logger
	}
	full := b.opts.Name
	if full == nil {
		full = Name
	}
	name := func(name string) string { return full(config.Alias, name) }
	return &member{Upstream: newUpstream(config.Alias, b.opts.prefixOf(config.Alias), config.Dialer, opts, b.suspended, name), config: config}
}

// Run starts the servers and keeps them running until ctx ends. It is ready when each server
// has been started, or could not be; for those that are not required it waits no longer
// than [Options.StartPatience]. The error joins those of required servers, and a
// *[server.CollisionError] for each tool or prompt whose name two servers have.
// [Bridge.States] says what has become of the other servers, and what is not offered:
// resources whose URI an earlier server has, and all that collides later. Run returns when
// no server runs any more. It must not run twice at a time.
func (b *Bridge) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := b.begin(ctx, changed); err != nil {
		return err
	}
	err := b.waitStarted(ctx)
	if err == nil {
		b.merged.Store(&server.Catalog{}) // which server was ready first decides nothing
		err = checkNames(b.merged.Load(), *b.members.Load())
	}
	if err == nil {
		ready()
	} else {
		stop()
	}
	b.wait(ctx)
	return err
}

func (b *Bridge) begin(ctx context.Context, changed func(mcp.Change)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running != nil {
		return errors.New("bridge: it runs already")
	}
	b.running, b.changed = ctx, changed
	for _, m := range *b.members.Load() {
		b.launch(m)
	}
	return nil
}

// launchAll starts servers that have not been started, and reports whether the bridge runs.
func (b *Bridge) launchAll(members []*member) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range members {
		if m.stop == nil && b.running != nil {
			b.launch(m)
		}
	}
	return b.running != nil
}

// wait waits until ctx has ended, and nothing runs any more.
func (b *Bridge) wait(ctx context.Context) {
	<-ctx.Done()
	b.mu.Lock()
	b.running, b.changed = nil, nil
	b.mu.Unlock()
	b.group.Wait()
}

// launch starts a server. It is called with the lock held, while the bridge runs.
func (b *Bridge) launch(m *member) {
	ctx, cancel := context.WithCancel(b.running)
	if !m.pool.begin(ctx) {
		cancel()
		return
	}
	stopped := make(chan struct{})
	m.stop = func() {
		cancel()
		<-stopped
	}
	b.group.Go(func() {
		defer close(stopped)
		defer cancel()
		m.run(ctx, func(change mcp.Change) {
			if slices.Contains(*b.members.Load(), m) { // one that is tried is not there yet
				b.tell(change)
			}
		})
	})
}

func (b *Bridge) tell(change mcp.Change) {
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	if changed != nil {
		changed(change)
	}
}

// waitStarted returns when each server has been started, or could not be. The error joins
// those of required servers.
func (b *Bridge) waitStarted(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, b.opts.StartPatience)
	defer cancel()
	return waitAll(*b.members.Load(), func(m *member) error {
		if m.config.Required {
			return m.waitConfigured(ctx)
		}
		_ = m.waitReady(patient) // it is logged, and in States
		return nil
	})
}

// Start runs the bridge for a program that does not mount it on a server, until ctx ends
// or stop is called, which waits. It returns when [Bridge.Run] is ready; after an error
// nothing runs.
func (b *Bridge) Start(ctx context.Context) (stop func(), err error) {
	running, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- b.Run(running, func() { close(ready) }, func(mcp.Change) {})
		close(ended)
	}()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return nil, err
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.opts.Logger.Error("the bridge failed", "error", err)
		}
	}, nil
}

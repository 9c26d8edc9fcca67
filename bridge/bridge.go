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

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Options configure a [Bridge]. The zero value is good.
type Options struct {
	// Name says what a server's tool or prompt is called here. It must depend on nothing
	// else, and give no two of them one name: only the first is offered then, see
	// [server.Merge]. A server that has not been started yet is started for names that
	// begin with its name for "".
	// Default [Name].
	Name func(alias, name string) string
	// Guards and CallMiddleware surround everything that the bridge offers, to clients and
	// to [Bridge.CallTool]; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Registry is told of each server's tools whenever they change.
	Registry Registry
	// StartPatience is how long a start waits for servers that are not required. What
	// comes later is told as a change. Default 4 s, which is less than clients wait for
	// a first answer.
	StartPatience time.Duration
	// Parking holds calls whose callers are asked, of all servers. Default: one of the
	// bridge's own.
	Parking *Parking
	// Logger is told of starts, ends and failures. Default slog.Default().
	Logger *slog.Logger
}

// A Registry takes the tools of each server, under the names that they have here.
type Registry interface {
	// Register replaces what is known of a server; no tools means that it has none, or
	// is gone. It is called from one goroutine at a time, and must not call the bridge.
	Register(alias string, tools []mcp.Tool)
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

	members atomic.Pointer[[]*member]
	merged  atomic.Pointer[server.Catalog]
	server  *server.Server // has the members mounted, within guards and middleware
	telling sync.Mutex     // of who tells the registry
}

// A member is a server of the bridge.
type member struct {
	*Upstream
	config Config
	stop   func() // and waits; nil if it was never launched
}

// New returns a bridge to servers, of which none is started yet. Mount it on a server,
// or call [Bridge.Start]. The error says which alias is none, or given twice.
func New(opts *Options, configs ...Config) (*Bridge, error) {
	b := new(Bridge)
	if opts != nil {
		b.opts = *opts
	}
	setDefault(&b.opts.StartPatience, 4*time.Second)
	if b.opts.Parking == nil {
		b.opts.Parking = NewParking()
	}
	if b.opts.Logger == nil {
		b.opts.Logger = slog.Default()
	}
	if err := check(configs); err != nil {
		return nil, err
	}
	members := make([]*member, len(configs))
	for i, config := range configs {
		members[i] = b.newMember(config)
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
	var parts []server.Part
	for _, member := range *m.members.Load() {
		parts = append(parts, server.Part{Owner: "server " + member.alias, Catalog: member.Catalog()})
	}
	for {
		before := m.Bridge.merged.Load()
		now := server.Merge(before, parts...)
		if now == before {
			return now
		}
		if m.Bridge.merged.CompareAndSwap(before, now) {
			for _, collision := range now.Collisions() {
				m.opts.Logger.Warn("an entry of a server is not offered", "error", collision)
			}
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
	if opts.Parking == nil {
		opts.Parking = b.opts.Parking
	}
	if opts.Logger == nil {
		opts.Logger = b.opts.Logger
	}
	name := func(name string) string { return b.opts.name(config.Alias, name) }
	return &member{Upstream: newUpstream(config.Alias, b.opts.prefix(config.Alias), config.Dialer, opts, name), config: config}
}

// Run starts the servers and keeps them running until ctx ends. It is ready when each server
// has been started, or could not be; for those that are not required it waits no longer
// than [Options.StartPatience]. The error joins those of required servers; what has become
// of the others, [Bridge.States] says. Run returns when no server runs any more. It must not
// run twice at a time.
func (b *Bridge) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := b.begin(ctx, changed); err != nil {
		return err
	}
	err := b.waitStarted(ctx)
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

// wait waits until ctx has ended, and nothing runs any more.
func (b *Bridge) wait(ctx context.Context) {
	<-ctx.Done()
	b.mu.Lock()
	b.running, b.changed = nil, nil
	b.mu.Unlock()
	b.group.Wait()
}

// launch starts a server, if the bridge runs. It is called with the lock held.
func (b *Bridge) launch(m *member) {
	if b.running == nil {
		return
	}
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
		if m.Catalog().Len(mcp.KindTool) > 0 && b.has(m) {
			b.register(m)
		}
		m.run(ctx, b.heard(m))
	})
}

// heard passes on what a server tells, once it is one of the bridge's.
func (b *Bridge) heard(m *member) func(mcp.Change) {
	return func(change mcp.Change) {
		if !b.has(m) {
			return
		}
		if change.Kind == mcp.KindTool {
			b.register(m)
		}
		b.tell(change)
	}
}

// has says whether a server is one of the bridge's: one that is tried is not yet.
func (b *Bridge) has(m *member) bool { return slices.Contains(*b.members.Load(), m) }

func (b *Bridge) tell(change mcp.Change) {
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	if changed != nil {
		changed(change)
	}
}

// register is told in the order of the changes of one server, and of one at a time.
func (b *Bridge) register(m *member) {
	if b.opts.Registry == nil {
		return
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	b.opts.Registry.Register(m.alias, decodeTools(m.Catalog()))
}

// waitStarted returns when each server has been started, or could not be. The error joins
// those of required servers.
func (b *Bridge) waitStarted(ctx context.Context) error {
	members := *b.members.Load()
	failures := make([]error, len(members))
	patient, cancel := context.WithTimeout(ctx, b.opts.StartPatience)
	defer cancel()
	var waiting sync.WaitGroup
	for i, m := range members {
		waiting.Go(func() {
			switch {
			case m.pool.main.sleeps:
			case m.config.Required:
				failures[i] = m.waitReady(ctx)
			default:
				_ = m.waitReady(patient) // the operator has been told
			}
		})
	}
	waiting.Wait()
	return errors.Join(failures...)
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

// Update makes the servers those of configs. One whose fingerprint is what it was goes on
// undisturbed; those that are gone, or different, are stopped, and then the others
// started. After an error everything is as it was.
func (b *Bridge) Update(configs ...Config) error {
	if err := check(configs); err != nil {
		return err
	}
	b.update.Lock()
	defer b.update.Unlock()
	before, offered := *b.members.Load(), b.Catalog()
	members, _ := b.successors(before, configs)
	b.mu.Lock()
	b.members.Store(&members)
	b.mu.Unlock()
	b.stop(without(before, members))
	b.mu.Lock()
	for _, m := range members {
		if m.stop == nil {
			b.launch(m)
		}
	}
	b.mu.Unlock()
	for _, change := range changes(offered, b.Catalog()) {
		b.tell(change)
	}
	return nil
}

// stop stops servers, all at once, and takes back their tools.
func (b *Bridge) stop(members []*member) {
	stopAll(members)
	if b.opts.Registry == nil {
		return
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	for _, m := range members {
		b.opts.Registry.Register(m.alias, nil)
	}
}

func (m *member) isStill(config Config) bool {
	return config.Fingerprint != "" && m.config.Alias == config.Alias && m.config.Fingerprint == config.Fingerprint &&
		m.config.Required == config.Required
}

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
)

// Options configure a [Bridge]. The zero value is good.
type Options struct {
	// Name says what a server's tool or prompt is called here. It must depend on nothing
	// else, and give no two of them one name: neither is offered then. Default [Name].
	Name func(alias, name string) string
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
	table   atomic.Pointer[table]
	build   sync.Mutex // of who makes the table anew
	telling sync.Mutex // of who tells the registry
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
	if b.opts.Name == nil {
		b.opts.Name = Name
	}
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
	b.table.Store(newTable(nil, b.opts.Logger))
	return b, nil
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
	name := func(name string) string { return b.opts.Name(config.Alias, name) }
	return &member{Upstream: newUpstream(config.Alias, config.Dialer, opts, name), config: config}
}

// Run starts the servers and keeps them running until ctx ends. It returns when none runs
// any more. It must not run twice at a time.
func (b *Bridge) Run(ctx context.Context, changed func(mcp.Change)) error {
	if err := b.begin(ctx, changed); err != nil {
		return err
	}
	b.wait(ctx)
	return nil
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
		if len(m.Catalogue().Tools) > 0 && b.has(m) {
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
	b.opts.Registry.Register(m.alias, decodeTools(m.Catalogue().Tools))
}

// Started returns when each server has been started, or could not be; for those that are
// not required it waits no longer than [Options.StartPatience]. The error joins those of
// required servers; what has become of the others, [Bridge.States] says.
func (b *Bridge) Started(ctx context.Context) error {
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
				failures[i] = m.learn(ctx)
			default:
				_ = m.learn(patient) // the operator has been told
			}
		})
	}
	waiting.Wait()
	return errors.Join(failures...)
}

// Start runs the bridge for a program that has no server to mount it on, until ctx ends
// or stop is called, which waits. It returns as [Bridge.Started] does; after an error
// nothing runs.
func (b *Bridge) Start(ctx context.Context) (stop func(), err error) {
	running, cancel := context.WithCancel(ctx)
	if err := b.begin(running, nil); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.wait(running)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	if err := b.Started(ctx); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
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
	before, offered := *b.members.Load(), b.Catalogue()
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
	for _, change := range changes(offered, b.Catalogue()) {
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

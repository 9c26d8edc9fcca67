package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Bridge offers the entries of many servers as one [server.Provider]. Make one with [New].
// Its methods may be called concurrently.
type Bridge struct {
	opts Options

	updating sync.Mutex // held while the set of members changes; taken before mu
	mu       sync.Mutex // guards the following fields and member.stop
	runCtx   context.Context
	onChange func(mcp.Change)
	group    sync.WaitGroup // of running members

	id            string          // random; see mcp.MetaBridges
	self          *server.Catalog // has the id and no entries
	suspended     *client.SuspendedCalls
	members       atomic.Pointer[[]*member]
	merged        atomic.Pointer[mergedCatalog]
	guardedServer *server.Server // mounts mergedProvider behind the guards and middleware
}

// A member is one server of a bridge.
type member struct {
	*Upstream
	config Config
	joined chan struct{} // closed when the member belongs to the bridge
	stop   func()        // stops the member and waits; nil if it was never started
}

// New returns a bridge to servers. It starts none of them: mount the bridge on a server, or
// call [Bridge.Start]. opts may be nil. The error names an alias that is invalid or used
// twice, or is a *[server.CollisionError] of tools or prompts in cached catalogs.
func New(opts *Options, configs ...Config) (*Bridge, error) {
	b := &Bridge{id: rand.Text(), suspended: client.NewSuspendedCalls()}
	if opts != nil {
		b.opts = *opts
	}
	b.opts.setDefaults()
	self := &server.CatalogOptions{Bridges: []string{b.id}}
	if b.opts.Unprefixed {
		self.Resolve = b.resolveUnprefixed
	}
	b.self = server.NewCatalog(nil, self)
	if err := checkConfigs(configs); err != nil {
		return nil, err
	}
	members, _ := b.nextMembers(nil, configs)
	b.merged.Store(&mergedCatalog{Catalog: &server.Catalog{}})
	if err := checkNames(b.merged.Load(), b.self, members); err != nil {
		return nil, err
	}
	b.join(members, members)
	b.guardedServer = server.New(mcp.Implementation{Name: "bridge"}, &server.Options{
		Guards: b.opts.Guards, CallMiddleware: b.opts.CallMiddleware, Logger: b.opts.Logger,
	})
	return b, b.guardedServer.Mount(mergedProvider{b}, nil)
}

// Catalog returns what all servers offer now. A server that does not run offers the entries of its last run.
func (b *Bridge) Catalog() *server.Catalog { return b.guardedServer.Catalog() }

// A mergedProvider offers the entries of all members. [Bridge.Run] runs the members.
type mergedProvider struct{ *Bridge }

func (p mergedProvider) Catalog() *server.Catalog {
	for {
		before, members := p.merged.Load(), *p.members.Load()
		if before.isOf(members) {
			return before.Catalog
		}
		now := merge(before, p.self, members)
		if p.merged.CompareAndSwap(before, now) {
			logNew(p.opts.Logger, entryNotOffered, before.Collisions(), now.Collisions())
			return now.Catalog
		}
	}
}

func (p mergedProvider) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

func checkConfigs(configs []Config) error {
	seen := make(map[string]bool)
	for _, config := range configs {
		if err := CheckAlias(config.Alias); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		if seen[config.Alias] {
			return fmt.Errorf("bridge: two servers have the alias %q", config.Alias)
		}
		seen[config.Alias] = true
		if config.Dialer == nil && config.DialAs == nil {
			return fmt.Errorf("bridge: the server %q has no Dialer", config.Alias)
		}
		if config.NoLists && config.DialAs == nil {
			return fmt.Errorf("bridge: the server %q has NoLists, but no DialAs", config.Alias)
		}
	}
	return nil
}

func (b *Bridge) newMember(config Config) *member {
	opts := config.ProxyOptions
	if opts.Logger == nil {
		opts.Logger = b.opts.Logger
	}
	fullName := b.opts.Name
	if fullName == nil {
		fullName = Name
	}
	name := func(name string) string { return fullName(config.Alias, name) }
	upstream := newUpstream(config.Alias, b.id, b.opts.prefixOf(config.Alias), config.Dialer, opts, b.suspended, name)
	if b.opts.Name == nil {
		upstream.eventName = func(name string) string { return eventName(config.Alias, name) }
	}
	m := &member{Upstream: upstream, config: config, joined: make(chan struct{})}
	if b.opts.OnConnect != nil {
		upstream.onConnect = func(ctx context.Context) {
			select {
			case <-m.joined: // not while UpdateAll still waits for other servers
				b.opts.OnConnect(ctx, b, config.Alias, b.toolsOf(ctx, config.Alias))
			case <-ctx.Done():
			}
		}
	}
	return m
}

// join makes members the members of the bridge. added are those that were no members before.
func (b *Bridge) join(members, added []*member) {
	b.members.Store(&members)
	for _, m := range added {
		close(m.joined)
	}
}

// Run starts the servers and keeps them running until ctx ends. It calls ready when each
// required server has started, and each other server has started, has failed to, or has
// been waited for [Options.StartTimeout]. The error joins the errors of required servers,
// and a *[server.CollisionError] for each tool or prompt whose name two servers have.
// [Bridge.States] reports the state of the other servers. Run returns after all servers have
// stopped. It must not run twice at the same time.
func (b *Bridge) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := b.begin(ctx, changed); err != nil {
		return err
	}
	err := b.waitStarted(ctx)
	if err == nil {
		b.merged.Store(&mergedCatalog{Catalog: &server.Catalog{}}) // the order in which servers became ready must not decide collisions
		err = checkNames(b.merged.Load(), b.self, *b.members.Load())
	}
	if err == nil {
		ready()
	} else {
		stop()
	}
	<-ctx.Done()
	b.mu.Lock()
	b.runCtx, b.onChange = nil, nil
	b.mu.Unlock()
	b.group.Wait()
	return err
}

func (b *Bridge) begin(ctx context.Context, changed func(mcp.Change)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runCtx != nil {
		return errors.New("bridge: the bridge is already running")
	}
	b.runCtx, b.onChange = ctx, changed
	for _, m := range *b.members.Load() {
		b.startMember(m)
	}
	return nil
}

// startMembers starts members if the bridge runs, and reports whether it does.
func (b *Bridge) startMembers(members []*member) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runCtx == nil {
		return false
	}
	for _, m := range members {
		b.startMember(m)
	}
	return true
}

// startMember requires b.mu. A member that already runs is left alone.
func (b *Bridge) startMember(m *member) {
	ctx, cancel := context.WithCancel(b.runCtx)
	if !m.pool.start(ctx) {
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
			if slices.Contains(*b.members.Load(), m) { // not while UpdateAll still waits for other servers
				b.notify(change)
			}
		})
	})
}

func (b *Bridge) notify(change mcp.Change) {
	b.mu.Lock()
	changed := b.onChange
	b.mu.Unlock()
	if changed != nil {
		changed(change)
	}
}

// waitStarted returns the joined errors of required servers. It starts over when the servers have been
// replaced: those that were stopped count no longer.
func (b *Bridge) waitStarted(ctx context.Context) error {
	optional, cancel := context.WithTimeout(ctx, b.opts.StartTimeout)
	defer cancel()
	for {
		members := b.members.Load()
		err := waitAll(*members, func(m *member) error {
			if m.config.Required {
				return m.waitConfigured(ctx)
			}
			_ = m.waitReady(optional) // the error is logged, and part of State
			return nil
		})
		if b.members.Load() == members {
			return err
		}
	}
}

// Start runs the bridge in the background until ctx ends or stop is called, for a program that does not mount it on a
// server. Start returns when [Bridge.Run] is ready. stop waits until all servers have stopped. The error is the error
// of Run, or the cause of ctx if ctx has ended. After an error nothing runs.
func (b *Bridge) Start(ctx context.Context) (stop func(), err error) {
	running, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- b.Run(running, func() { close(ready) }, func(mcp.Change) {})
		close(ended)
	}()
	select {
	case <-ready:
		err = context.Cause(ctx)
	case err = <-ended:
		err = cmp.Or(err, context.Cause(ctx))
	}
	if err != nil {
		cancel()
		return nil, cmp.Or(err, <-ended) // after Run has ended
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.opts.Logger.Error("the bridge failed", "error", err)
		}
	}, nil
}

// Update replaces the servers of the bridge by the servers in configs. A server whose fingerprint is unchanged keeps
// running. All others are stopped first, and then the new ones started. The errors are the same as for [New]; after an
// error nothing has changed.
func (b *Bridge) Update(configs ...Config) error {
	return b.replace(configs, func([]*member) error { return nil })
}

// UpdateAll is a [Bridge.Update] of a running bridge that changes nothing unless every new server starts. Lazy servers
// with a cached catalog are not started. New servers start before old servers are stopped, so for a while two versions
// of a server may run. Clients get one notification for each kind of list that changed. In addition to the errors of
// Update, UpdateAll returns the errors of the new servers, required or not. For required servers it also returns the
// errors of [Bridge.Run].
func (b *Bridge) UpdateAll(ctx context.Context, configs ...Config) error {
	return b.replace(configs, func(added []*member) error {
		if !b.startMembers(added) {
			return errors.New("bridge: the bridge is not running")
		}
		return waitAll(added, func(m *member) error {
			if m.config.Required {
				return m.waitConfigured(ctx)
			}
			return m.waitReady(ctx)
		})
	})
}

// Restart ends all sessions with the server alias and starts it again, immediately also if the server waits for its next try
// or is idle. Calls in flight fail with an [UpstreamError]; calls that have not been sent wait for the next session. The
// entries of the server stay offered. Restart does not wait for the server: see [Bridge.States]. The error is an
// *[UnknownServerError], or [ErrNotStarted] if the bridge does not run.
func (b *Bridge) Restart(alias string) error {
	m, err := b.running(alias)
	if err == nil && !m.pool.restart() {
		err = ErrNotStarted
	}
	return err
}

// EndSession ends the session of a principal with the server alias, for example because the principal has another account there
// now. Calls in flight fail, and the next call opens another session. It has no effect on the session for lists. The error is an
// *[UnknownServerError], or [ErrNotStarted] if the bridge does not run.
func (b *Bridge) EndSession(alias, principal string) error {
	m, err := b.running(alias)
	if err == nil {
		m.pool.end(principal)
	}
	return err
}

// Offer replaces [ProxyOptions].CachedCatalog of the server alias, which has NoLists, without restarting it. The error is an
// *[UnknownServerError] if there is no such server.
func (b *Bridge) Offer(alias string, entries *server.Catalog) error {
	for _, m := range *b.members.Load() {
		if m.alias == alias && m.opts.NoLists {
			m.offerCached(entries)
			return nil
		}
	}
	return &UnknownServerError{Server: alias}
}

// Refresh reads the lists of the server alias again, as after a notification that they have changed. A server that is idle is
// started; one that has failed reads its lists at its next start. Refresh does not wait. The errors are the same as for
// [Bridge.Restart].
func (b *Bridge) Refresh(alias string) error {
	m, err := b.running(alias)
	if err == nil {
		m.readAgain()
	}
	return err
}

// running returns the member alias, which must run.
func (b *Bridge) running(alias string) (*member, error) {
	for _, m := range *b.members.Load() {
		switch {
		case m.alias != alias:
		case !m.pool.isRunning():
			return nil, ErrNotStarted
		default:
			return m, nil
		}
	}
	return nil, &UnknownServerError{Server: alias}
}

// replace calls prepare with the new members before it replaces the old ones.
func (b *Bridge) replace(configs []Config, prepare func(added []*member) error) error {
	if err := checkConfigs(configs); err != nil {
		return err
	}
	b.updating.Lock()
	defer b.updating.Unlock()
	before, catalog := *b.members.Load(), b.Catalog()
	members, added := b.nextMembers(before, configs)
	err := prepare(added)
	if err == nil {
		err = checkNames(b.merged.Load(), b.self, members)
	}
	if err != nil {
		stopAll(added)
		return err
	}
	b.mu.Lock()
	b.join(members, added)
	b.mu.Unlock()
	stopAll(slices.DeleteFunc(slices.Clone(before), func(m *member) bool { return slices.Contains(members, m) }))
	b.startMembers(added)
	for _, change := range changes(catalog, b.Catalog()) {
		b.notify(change)
	}
	return nil
}

// nextMembers returns the members for configs. Unchanged members of before are reused, the
// new ones are also in added.
func (b *Bridge) nextMembers(before []*member, configs []Config) (members, added []*member) {
	for _, config := range configs {
		i := slices.IndexFunc(before, func(m *member) bool {
			return config.Fingerprint != "" && m.config.Fingerprint == config.Fingerprint &&
				m.config.Alias == config.Alias && m.config.Required == config.Required
		})
		if i >= 0 {
			members = append(members, before[i])
			continue
		}
		m := b.newMember(config)
		members, added = append(members, m), append(added, m)
	}
	return members, added
}

// waitAll calls wait for all members concurrently, except for lazy ones with a cached
// catalog, and joins the errors.
func waitAll(members []*member, wait func(m *member) error) error {
	errs := make([]error, len(members))
	var waiting sync.WaitGroup
	for i, m := range members {
		if !m.pool.main.lazy {
			waiting.Go(func() { errs[i] = wait(m) })
		}
	}
	waiting.Wait()
	return errors.Join(errs...)
}

// stopAll stops members concurrently.
func stopAll(members []*member) {
	var stopping sync.WaitGroup
	for _, m := range members {
		if m.stop != nil {
			stopping.Go(m.stop)
		}
	}
	stopping.Wait()
}

// States returns the states of the servers, in the order of their configs.
func (b *Bridge) States() []State {
	members := *b.members.Load()
	collisions := mergedProvider{b}.Catalog().Collisions()
	states := make([]State, len(members))
	for i, m := range members {
		states[i] = m.State()
		for _, collision := range collisions {
			if collision.Owner == m.owner {
				states[i].NotOffered = append(states[i].NotOffered, collision)
			}
		}
	}
	return states
}

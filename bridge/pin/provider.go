package pin

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Options are how a [Provider] decides. The zero value quarantines all that has not been
// accepted.
type Options struct {
	// TrustNew pins a tool of which the lock knows nothing when it is seen first,
	// which leaves those to be found that change afterwards. Otherwise it is
	// quarantined.
	TrustNew bool
	// OfferChanged offers a changed tool nonetheless. It is pending, and logged.
	// Otherwise it is quarantined. An invalid tool is quarantined in any case.
	OfferChanged bool
	// Logger is told of each tool that comes to be pending, and of locks that cannot be
	// saved. Default slog.Default().
	Logger *slog.Logger
}

// A Provider offers what another does, except for tools that are quarantined. Use
// [Guarded].
type Provider struct {
	provider server.Provider
	pins     *pins
	options  Options

	mu      sync.Mutex // of who judges
	current atomic.Pointer[judgement]
	trusted chan struct{} // something has been pinned that is to be saved
}

var _ server.Provider = (*Provider)(nil)

// Guarded returns a provider of what p offers, as far as the lock has it for the server
// with that alias. Two providers at a time should not have one alias in one lock. opts may
// be nil.
func Guarded(p server.Provider, alias string, lock *Lock, opts *Options) *Provider {
	g := &Provider{provider: p, pins: lock.server(alias), trusted: make(chan struct{}, 1)}
	if opts != nil {
		g.options = *opts
	}
	if g.options.Logger == nil {
		g.options.Logger = slog.Default()
	}
	return g
}

// Catalog returns what p offers now, without the tools that are quarantined: the error of a
// call of one of them is that of [Provider.Check].
func (p *Provider) Catalog() *server.Catalog { return p.now().catalog }

// Check says whether a call of a tool would be passed on now. The error is a
// *[QuarantinedError], or a *jsonrpc.Error if p does not list the tool. It serves those who
// find out by the catalogue where to send a call, and want to say why it goes nowhere.
func (p *Provider) Check(tool string) error { return p.now().check(tool) }

// Run is p's, and reports [mcp.KindTool] as well when something is pinned. Meanwhile
// what p offers is judged whenever it has changed, and the lock is saved when something has
// been pinned.
func (p *Provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	offered := make(chan struct{}, 1) // another catalogue
	running, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { p.keep(running, offered, changed) })
	defer keeper.Wait()
	defer stop()
	return p.provider.Run(ctx, ready, func(change mcp.Change) {
		if change.Kind == mcp.KindTool {
			wake(offered)
		}
		changed(change)
	})
}

// keep looks at what is offered, and saves the lock, until ctx ends and once more then.
func (p *Provider) keep(ctx context.Context, offered <-chan struct{}, changed func(mcp.Change)) {
	pinned := p.pins.changes()
	for {
		p.now()
		if err := p.pins.lock.Save(); err != nil {
			p.options.Logger.Error("the lock of tools was not saved", "error", err)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-offered:
		case <-p.trusted:
		case <-pinned:
			pinned = p.pins.changes()
			changed(mcp.Change{Kind: mcp.KindTool})
		}
	}
}

// wake tells somebody who may not be listening at the moment.
func wake(sleeper chan<- struct{}) {
	select {
	case sleeper <- struct{}{}:
	default:
	}
}

// now is the judgement of what p offers now.
func (p *Provider) now() *judgement {
	if j := p.current.Load(); j.isOf(p.provider.Catalog(), p.pins.current.Load()) {
		return j
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	offered, before := p.provider.Catalog(), p.current.Load()
	if before.isOf(offered, p.pins.current.Load()) {
		return before
	}
	j := p.judge(before, offered)
	p.current.Store(j)
	p.pins.await(j.pending())
	return j
}

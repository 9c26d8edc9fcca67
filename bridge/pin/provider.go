package pin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Options configure a [Provider]. The zero value quarantines every tool that has not been
// accepted.
type Options struct {
	// TrustNew pins new tools when they are first seen, so that only later changes are
	// quarantined. At most 4,096 tools of one server are pinned in this way.
	TrustNew bool
	// OfferChanged offers changed tools, which are still pending and logged. Invalid tools
	// are always quarantined.
	OfferChanged bool
	// Logger logs each tool that becomes pending, and locks that cannot be saved. Default:
	// slog.Default().
	Logger *slog.Logger
}

// A Provider offers the entries of another provider except quarantined tools. A call to a
// quarantined tool fails with a *[QuarantinedError]. Make one with [Wrap]. Its methods may be
// called concurrently.
type Provider struct {
	provider server.Provider
	pins     *serverPins
	options  Options

	mu      sync.Mutex // held during an evaluation
	current atomic.Pointer[evaluation]
	trusted chan struct{} // receives one value when TrustNew has pinned tools
}

var _ server.Provider = (*Provider)(nil)

// Wrap returns a provider that offers the tools of p as far as lock has them under the alias.
// Two providers that run at the same time should have different aliases. opts may be nil.
func Wrap(p server.Provider, alias string, lock *Lock, opts *Options) *Provider {
	wrapped := &Provider{provider: p, pins: lock.server(alias), trusted: make(chan struct{}, 1)}
	if opts != nil {
		wrapped.options = *opts
	}
	if wrapped.options.Logger == nil {
		wrapped.options.Logger = slog.Default()
	}
	return wrapped
}

// Catalog returns the current entries without quarantined tools.
func (p *Provider) Catalog() *server.Catalog {
	if e := p.current.Load(); e.isOf(p.provider.Catalog(), p.pins.current.Load()) {
		return e.catalog
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	offered, before := p.provider.Catalog(), p.current.Load()
	if before.isOf(offered, p.pins.current.Load()) {
		return before.catalog
	}
	e := p.evaluate(before, offered)
	p.current.Store(e)
	p.pins.setPending(e.pending())
	return e.catalog
}

// Run runs the wrapped provider, and also reports a change of tools when pins change. While it runs, it evaluates every
// change of the catalog and saves the lock after every change of pins. Run returns the error of the wrapped provider.
func (p *Provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	offered := make(chan struct{}, 1)
	running, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { p.follow(running, offered, changed) })
	defer following.Wait()
	defer stop()
	return p.provider.Run(ctx, ready, func(change mcp.Change) {
		if change.Kind == mcp.KindTool {
			signal(offered)
		}
		changed(change)
	})
}

// follow evaluates the catalog and saves the lock after each change, and when ctx ends.
func (p *Provider) follow(ctx context.Context, offered <-chan struct{}, changed func(mcp.Change)) {
	pinned := p.pins.nextChange()
	for {
		p.Catalog()
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
			pinned = p.pins.nextChange()
			changed(mcp.Change{Kind: mcp.KindTool})
		}
	}
}

// signal sends a value unless the channel, which has a buffer of one, is full.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// An evaluation is the result of comparing a catalog with the pins. It does not change.
type evaluation struct {
	offered *server.Catalog // of the wrapped provider
	pinned  *digests
	catalog *server.Catalog // the result
	tools   map[string]*tool
}

// A tool is the evaluation of one tool.
type tool struct {
	definition json.RawMessage
	digest     string
	err        error           // why there is no digest
	accepted   json.RawMessage // the accepted definition, if it has been seen
	pending    *Pending        // nil if the tool is as pinned
	isListed   bool
	refusing   *server.Entry // handles calls if the tool is not listed
}

// isOf reports whether e is the evaluation of a catalog with these pins.
func (e *evaluation) isOf(offered *server.Catalog, pinned *digests) bool {
	return e != nil && e.offered == offered && e.pinned == pinned
}

// tool returns the evaluation of a tool, or nil.
func (e *evaluation) tool(name string) *tool {
	if e == nil {
		return nil
	}
	return e.tools[name]
}

func (p *Provider) evaluate(before *evaluation, offered *server.Catalog) *evaluation {
	e := &evaluation{offered: offered, pinned: p.pins.current.Load(), tools: make(map[string]*tool, offered.Len(mcp.KindTool))}
	for entry := range offered.All(mcp.KindTool) {
		e.tools[entry.Name] = newTool(entry, before.tool(entry.Name))
	}
	if p.options.TrustNew {
		p.trustNew(e)
	}
	for name, t := range e.tools {
		p.decide(e, name, t, before.tool(name))
		if !t.isListed {
			t.refusing = refusing(offered.Lookup(mcp.KindTool, name), t.pending)
		}
	}
	listed := offered.Map(func(entry *server.Entry) *server.Entry {
		if t := e.tools[entry.Name]; entry.Kind == mcp.KindTool && (t == nil || !t.isListed) {
			return nil // t is nil if the entry was resolved by name and is in no list
		}
		return entry
	})
	quarantined := server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		if t := e.tools[name]; kind == mcp.KindTool && t != nil {
			return t.refusing, nil
		}
		return nil, nil
	}})
	e.catalog = server.Merge(nil, server.Part{Owner: p.pins.alias, Catalog: listed}, server.Part{Owner: p.pins.alias + ", quarantined", Catalog: quarantined})
	return e
}

// refusing returns an entry that refuses calls of a quarantined tool. Guards see a definition
// with nothing but the name, since the rest has not been accepted.
func refusing(e *server.Entry, pending *Pending) *server.Entry {
	refusing := &server.Entry{Target: e.Target}
	refusing.Definition = mcp.NewDefinition(fmt.Appendf(nil, `{"name":%s}`, jsonscan.AppendString(nil, e.Name)))
	refusing.Handle = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, pending.refusal() }
	return refusing
}

// newTool computes the digest of a tool, or takes it from before if the definition is the same.
func newTool(e *server.Entry, before *tool) *tool {
	t := &tool{definition: e.Definition.JSON()}
	if before != nil && before.err == nil && bytes.Equal(before.definition, t.definition) {
		t.digest = before.digest
	} else if t.err = checkName("tool", e.Name); t.err == nil {
		t.digest, t.err = Digest(t.definition)
	}
	return t
}

// trustNew pins new tools.
func (p *Provider) trustNew(e *evaluation) {
	seen := make(digests)
	for name, t := range e.tools {
		if _, pinned := (*e.pinned)[name]; !pinned && t.err == nil {
			seen[name] = t.digest
		}
	}
	if len(seen) == 0 {
		return
	}
	before := e.pinned
	var err error
	if e.pinned, err = p.pins.trust(seen); err != nil {
		p.options.Logger.Error("new tools cannot be pinned and are quarantined", "server", p.pins.alias, "error", err)
	}
	if e.pinned != before {
		signal(p.trusted)
	}
}

// decide compares a tool with its pin.
func (p *Provider) decide(e *evaluation, name string, t, before *tool) {
	pinned, isPinned := (*e.pinned)[name]
	if t.err == nil && isPinned && pinned == t.digest {
		t.accepted, t.isListed = t.definition, true
		return
	}
	reason := New
	switch {
	case t.err != nil:
		reason = Invalid
	case isPinned:
		reason = Changed
	}
	if before != nil {
		t.accepted = before.accepted
	}
	t.isListed = reason == Changed && p.options.OfferChanged
	t.pending = &Pending{
		Server: p.pins.alias, Tool: name, Reason: reason, OldDigest: pinned, NewDigest: t.digest,
		Before: t.accepted, After: t.definition, Err: t.err,
	}
	if before == nil || before.pending == nil || before.digest != t.digest || before.pending.Reason != reason {
		p.options.Logger.Warn("a tool is not as it was accepted", "server", p.pins.alias, "tool", name,
			"reason", reason.String(), "quarantined", !t.isListed, "old", pinned, "new", t.digest)
	}
}

// pending returns the tools that are not as pinned, sorted by name.
func (e *evaluation) pending() []Pending {
	var pending []Pending
	for _, name := range slices.Sorted(maps.Keys(e.tools)) {
		if t := e.tools[name]; t.pending != nil {
			pending = append(pending, *t.pending)
		}
	}
	return pending
}

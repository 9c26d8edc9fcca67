package pin

import (
	"bytes"
	"cmp"
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

// Options configure a [Provider]. The zero value quarantines everything that has not been
// accepted.
type Options struct {
	// TrustNew pins new entries and contents when they are first seen, so that only later changes are
	// quarantined. At most 4,096 pins of one server are made in this way.
	TrustNew bool
	// OfferChanged offers changed entries and contents, which are still pending and logged. Invalid ones
	// are always quarantined.
	OfferChanged bool
	// Logger logs each entry that becomes pending, and locks that cannot be saved. Default:
	// slog.Default().
	Logger *slog.Logger
}

// A Provider offers the entries of another provider except quarantined ones. A call to a
// quarantined entry fails with a *[QuarantinedError]. Make one with [Wrap]. Its methods may be
// called concurrently.
type Provider struct {
	provider server.Provider
	pins     *serverPins
	options  Options

	mu      sync.Mutex // held during an evaluation
	current atomic.Pointer[evaluation]
	trusted chan struct{} // receives one value when TrustNew has pinned entries
}

var _ server.Provider = (*Provider)(nil)

// Wrap returns a provider that offers the entries of p as far as lock has them under the alias.
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

// Catalog returns the current entries without quarantined ones.
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

// Run runs the wrapped provider, and also reports changes of lists when pins change. While it runs, it evaluates every
// change of the catalog and saves the lock after every change of pins. Run returns the error of the wrapped provider.
func (p *Provider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	offered := make(chan struct{}, 1)
	running, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { p.follow(running, offered, changed) })
	defer following.Wait()
	defer stop()
	return p.provider.Run(ctx, ready, func(change mcp.Change) {
		if change.URI == "" {
			signal(offered)
		}
		changed(change)
	})
}

// follow evaluates the catalog and saves the lock after each change, and when ctx ends.
func (p *Provider) follow(ctx context.Context, offered <-chan struct{}, changed func(mcp.Change)) {
	pinned, pins := p.pins.nextChange(), p.pins.current.Load()
	for {
		p.Catalog()
		if err := p.pins.lock.Save(); err != nil {
			p.options.Logger.Error("the lock was not saved", "error", err)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-offered:
		case <-p.trusted:
		case <-pinned:
			before := pins
			pinned, pins = p.pins.nextChange(), p.pins.current.Load()
			for _, kind := range changedLists(*before, *pins) {
				changed(mcp.Change{Kind: kind})
			}
		}
	}
}

// changedLists returns the lists in which pins differ. Resources, templates and skills are one list; see [mcp.Change].
func changedLists(before, after digests) (lists []mcp.Kind) {
	differ := make(map[mcp.Kind]bool)
	compare := func(a, b digests) {
		for e, digest := range a {
			switch {
			case b[e] == digest, e.Kind == Content:
			case e.Kind == ResourceTemplate, e.Kind == Skill:
				differ[mcp.KindResource] = true
			default:
				differ[mcpKind(e.Kind)] = true
			}
		}
	}
	compare(before, after)
	compare(after, before)
	return slices.Sorted(maps.Keys(differ))
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
	entries map[Entry]*evaluated
	files   map[string]string // digests of the files of accepted skills, by canonical URI
}

// An evaluated is the evaluation of one entry.
type evaluated struct {
	definition json.RawMessage
	digest     string
	err        error           // why there is no digest
	accepted   json.RawMessage // the accepted definition, if it has been seen
	pending    *Pending        // nil if the entry is as pinned
	isListed   bool
	refusing   *server.Entry // handles calls if the entry is not listed
}

// isOf reports whether e is the evaluation of a catalog with these pins.
func (e *evaluation) isOf(offered *server.Catalog, pinned *digests) bool {
	return e != nil && e.offered == offered && e.pinned == pinned
}

// entry returns the evaluation of an entry, or nil.
func (e *evaluation) entry(of Entry) *evaluated {
	if e == nil {
		return nil
	}
	return e.entries[of]
}

// entryOf identifies an entry of a catalog.
func entryOf(e *server.Entry) Entry { return Entry{kindOf(e.Kind), e.Name} }

func (p *Provider) evaluate(before *evaluation, offered *server.Catalog) *evaluation {
	e := &evaluation{offered: offered, pinned: p.pins.current.Load(), entries: make(map[Entry]*evaluated), files: make(map[string]string)}
	for _, kind := range listedKinds() {
		for entry := range offered.All(kind) {
			e.entries[entryOf(entry)] = evaluateEntry(entry, before.entry(entryOf(entry)))
		}
	}
	if p.options.TrustNew {
		p.trustNew(e)
	}
	var differ pendingLog
	for _, of := range slices.SortedFunc(maps.Keys(e.entries), compareEntries) {
		t := e.entries[of]
		if p.compare(e, of, t, before.entry(of)) {
			differ.add(offered.Lookup(mcpKind(of.Kind), of.Name).Origin.Server, t.pending, !t.isListed)
		}
		if !t.isListed {
			t.refusing = refusing(offered.Lookup(mcpKind(of.Kind), of.Name), t.pending)
		}
	}
	differ.log(p.options.Logger)
	listed := offered.Map(func(entry *server.Entry) *server.Entry {
		t := e.entries[entryOf(entry)]
		if t == nil || !t.isListed {
			return nil // t is nil if the entry was resolved by name and is in no list
		}
		return p.verifying(e, entry, t)
	})
	for skill := range listed.All(mcp.KindSkill) {
		e.addFiles(skill.Definition.JSON())
	}
	quarantined := server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		if found := offered.Lookup(kind, name); found != nil {
			if t := e.entries[entryOf(found)]; t != nil {
				return t.refusing, nil
			}
		}
		return nil, nil
	}})
	e.catalog = server.Merge(nil, server.Part{Owner: p.pins.alias, Catalog: listed}, server.Part{Owner: p.pins.alias + ", quarantined", Catalog: quarantined})
	return e
}

// refusing returns an entry that refuses calls of a quarantined entry. Guards see a definition
// with nothing but the name, since the rest has not been accepted.
func refusing(e *server.Entry, pending *Pending) *server.Entry {
	refusing := &server.Entry{Target: e.Target}
	member := map[mcp.Kind]string{mcp.KindResource: "uri", mcp.KindResourceTemplate: "uriTemplate", mcp.KindSkill: "uri"}[e.Kind]
	refusing.Definition = mcp.NewDefinition(fmt.Appendf(nil, `{%q:%s}`, cmp.Or(member, "name"), jsonscan.AppendString(nil, e.Name)))
	refusing.Handle = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, pending.refusal() }
	return refusing
}

// evaluateEntry computes the digest of an entry, or takes it from before if the definition is the same.
func evaluateEntry(e *server.Entry, before *evaluated) *evaluated {
	t := &evaluated{definition: e.Definition.JSON()}
	kind := kindOf(e.Kind)
	if before != nil && before.err == nil && bytes.Equal(before.definition, t.definition) {
		t.digest = before.digest
	} else if t.err = checkName(kind.what(), e.Name); t.err == nil {
		t.digest, t.err = Digest(kind, t.definition)
	}
	return t
}

// trustNew pins new entries.
func (p *Provider) trustNew(e *evaluation) {
	seen := make(digests)
	for of, t := range e.entries {
		if _, pinned := (*e.pinned)[of]; !pinned && t.err == nil {
			seen[of] = t.digest
		}
	}
	if len(seen) == 0 {
		return
	}
	e.pinned = p.trust(seen, e.pinned)
}

// trust pins entries, and returns all pins. before are the pins until now.
func (p *Provider) trust(seen digests, before *digests) *digests {
	pinned, err := p.pins.trust(seen)
	if err != nil {
		p.options.Logger.Error("new entries cannot be pinned and are quarantined", "server", p.pins.alias, "error", err)
	}
	if pinned != before {
		signal(p.trusted)
	}
	return pinned
}

// compare compares an entry with its pin. It reports whether the entry differs, and did not differ in this way before.
func (p *Provider) compare(e *evaluation, of Entry, t, before *evaluated) (differs bool) {
	pinned, isPinned := (*e.pinned)[of]
	if t.err == nil && isPinned && pinned == t.digest {
		t.accepted, t.isListed = t.definition, true
		if before == nil || !bytes.Equal(before.accepted, t.definition) {
			p.pins.lock.keep(t.digest, t.definition)
		}
		return false
	}
	if before != nil {
		t.accepted = before.accepted
	}
	t.pending = &Pending{
		Server: p.pins.alias, Entry: of, Reason: reasonOf(t.err, isPinned), OldDigest: pinned, NewDigest: t.digest,
		Before: t.accepted, After: t.definition, Err: t.err,
	}
	t.isListed = t.pending.Reason == reasonChanged && p.options.OfferChanged
	return before == nil || before.pending == nil || before.digest != t.digest || before.pending.Reason != t.pending.Reason
}

// reasonOf returns why an entry is pending.
func reasonOf(err error, isPinned bool) string {
	switch {
	case err != nil:
		return reasonInvalid
	case isPinned:
		return reasonChanged
	}
	return reasonNew
}

// pending returns the entries that are not as pinned, sorted by kind and name.
func (e *evaluation) pending() []Pending {
	var pending []Pending
	for _, of := range slices.SortedFunc(maps.Keys(e.entries), compareEntries) {
		if t := e.entries[of]; t.pending != nil {
			pending = append(pending, *t.pending)
		}
	}
	return pending
}

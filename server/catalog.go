package server

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Catalog is an immutable, indexed list of entries. Its methods may be called
// concurrently. The zero value has no entries.
type Catalog struct {
	entries    [kinds][]*Entry
	index      [kinds]map[string]*Entry
	templates  []matcher
	resolve    resolver
	partial    bool
	lists      [kinds]list
	described  [2]atomic.Pointer[era.Description] // of the server whose catalog it is: before and after its start
	memo       sync.Map                           // of keys to *memoized
	collisions []*CollisionError

	// Of a merged catalog:
	parts  []Part
	owners [kinds]map[string]string
}

const kinds = mcp.KindResourceTemplate + 1

// A resolver finds an entry that is not listed: see [CatalogOptions].
type resolver = func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error)

// A matcher is a template with the URIs that it must not match: those of resources that
// are listed beside it and were dropped.
type matcher struct {
	*Entry
	dropped map[string]bool
}

func (m *matcher) matches(uri string) bool { return m.Match != nil && !m.dropped[uri] && m.Match(uri) }

// CatalogOptions say what a catalog has beside its entries.
type CatalogOptions struct {
	// Resolve finds an entry that is in no list, or not yet: it may start the server that
	// has it. It returns nil if there is no such entry, and the same entry for the same
	// name as long as nothing changes. Resolve is nil if there are no such entries.
	Resolve func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error)
	// Partial says that more entries will come, of any kind: clients are promised all
	// kinds, so that they ask again.
	Partial bool
}

// NewCatalog returns the catalog of entries, in their order. Of several with one kind and
// name the first is offered, and the others are among the [Catalog.Collisions]. opts may
// be nil.
func NewCatalog(entries []*Entry, opts *CatalogOptions) *Catalog {
	c := &Catalog{}
	if opts != nil {
		c.partial = opts.Partial
	}
	if opts != nil && opts.Resolve != nil {
		finished := newMapping(func(e *Entry) *Entry { return e })
		c.resolve = func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
			e, err := opts.Resolve(ctx, kind, name)
			if e == nil || err != nil || e.Kind != kind || e.Name != name {
				return nil, err
			}
			return finished.of(e), nil
		}
	}
	for _, e := range entries {
		c.add(e.finish(nil), nil)
	}
	return c
}

// add appends an entry. One whose kind and name is there already is a collision.
func (c *Catalog) add(e *Entry, dropped map[string]bool) {
	if c.index[e.Kind][e.Name] != nil {
		c.collisions = append(c.collisions, &CollisionError{Kind: e.Kind, Name: e.Name})
		return
	}
	if c.index[e.Kind] == nil {
		c.index[e.Kind] = make(map[string]*Entry)
	}
	c.index[e.Kind][e.Name] = e
	c.entries[e.Kind] = append(c.entries[e.Kind], e)
	if e.Kind == mcp.KindResourceTemplate {
		c.templates = append(c.templates, matcher{e, dropped})
	}
}

// All iterates over the entries of a kind, in the order of the list.
func (c *Catalog) All(kind mcp.Kind) iter.Seq[*Entry] { return slices.Values(c.entries[kind]) }

// Len returns the number of entries of a kind.
func (c *Catalog) Len(kind mcp.Kind) int { return len(c.entries[kind]) }

// Lookup returns the entry of that kind and name, nil if there is none. A resource that is
// not listed may be one of a template: then the first template that matches its URI is
// returned. A URI whose resource was dropped by [Catalog.Map] is matched by no template
// beside it.
func (c *Catalog) Lookup(kind mcp.Kind, name string) *Entry {
	e := c.index[kind][name]
	if e == nil && kind == mcp.KindResource {
		return c.matching(name)
	}
	return e
}

// lookupRaw is Lookup by a name as a call has it, in quotes. For most names it copies
// nothing.
func (c *Catalog) lookupRaw(kind mcp.Kind, name []byte) *Entry {
	if bytes.IndexByte(name, '\\') < 0 {
		if e := c.index[kind][string(name[1:len(name)-1])]; e != nil {
			return e
		}
	}
	return c.Lookup(kind, jsonscan.Unquote(name))
}

func (c *Catalog) matching(uri string) *Entry {
	for _, t := range c.templates {
		if t.matches(uri) {
			return t.Entry
		}
	}
	return nil
}

// Resolve finds an entry for which Lookup has returned nil, by the resolver of the catalog
// or those of the catalogs that it was made from. It returns nil if there is none. It may
// wait, for the start of a server for example.
func (c *Catalog) Resolve(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
	if c.resolve == nil {
		return nil, nil
	}
	return c.resolve(ctx, kind, name)
}

// Map returns the catalog of what f makes of each entry, also of those that are resolved
// later. f returns the entry itself, a changed copy, or nil to drop it. A provider keeps
// the result with [Catalog.Memo], so that it is made once for each catalog.
func (c *Catalog) Map(f func(*Entry) *Entry) *Catalog {
	return newMapping(f).apply(c)
}

// mapped is Map with another way to resolve entries, if c resolves any.
func (c *Catalog) mapped(f func(*Entry) *Entry, more resolver) *Catalog {
	to := &Catalog{partial: c.partial, collisions: slices.Clip(c.collisions)}
	dropped := make(map[string]bool)
	for kind, entries := range c.entries { // resources come before templates
		for i, e := range entries {
			e = f(e)
			switch {
			case e == nil && mcp.Kind(kind) == mcp.KindResource:
				dropped[entries[i].Name] = true
			case e == nil:
			case mcp.Kind(kind) == mcp.KindResourceTemplate:
				to.add(e.finish(nil), union(c.templates[i].dropped, dropped))
			default:
				to.add(e.finish(nil), nil)
			}
		}
	}
	if c.resolve != nil {
		to.resolve = more
	}
	return to
}

func union(a, b map[string]bool) map[string]bool {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// Memo returns what build makes for the key, which is called once for each catalog and
// key. Whatever is derived from a catalog is kept this way, and goes with the catalog.
func (c *Catalog) Memo(key any, build func() any) any {
	memo, ok := c.memo.Load(key)
	if !ok {
		memo, _ = c.memo.LoadOrStore(key, &memoized{})
	}
	m := memo.(*memoized)
	m.once.Do(func() { m.value = build() })
	return m.value
}

type memoized struct {
	once  sync.Once
	value any
}

// recheck reports whether a target is still in the catalog, or one of equal origin and
// definition.
func (c *Catalog) recheck(ctx context.Context, t *mcp.Target) error {
	now := c.index[t.Kind][t.Name]
	if now == nil {
		var err error
		if now, err = c.Resolve(ctx, t.Kind, t.Name); err != nil {
			return err
		}
	}
	switch {
	case now == nil:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the %v %.256q is not offered any more", t.Kind, t.Name)}
	case &now.Target == t, now.Origin == t.Origin && now.Definition.Digest() == t.Definition.Digest():
		return nil
	default:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the %v %.256q has changed since the call was made", t.Kind, t.Name)}
	}
}

// A mapping is [Catalog.Map] for a catalog that changes: an entry that is in the new
// catalog as well is not mapped again, so that the middleware around it keeps its state.
// It may be used concurrently.
type mapping struct {
	f     func(*Entry) *Entry
	inner func(kind mcp.Kind, name string) (string, bool) // what a name was before f, if it can be
	last  atomic.Pointer[mapped]

	mu       sync.Mutex
	made     map[*Entry]*Entry // of the entries of the last catalog
	resolved map[*Entry]*Entry // of others
}

type mapped struct{ from, to *Catalog }

// maxResolved bounds how many entries outside of catalogs a mapping remembers.
const maxResolved = 1 << 10

// newMapping returns the mapping by a function as [Catalog.Map] takes it.
func newMapping(f func(*Entry) *Entry) *mapping {
	return &mapping{f: f, inner: func(_ mcp.Kind, name string) (string, bool) { return name, true }}
}

// apply returns the mapped catalog. It is the same for the same catalog.
func (m *mapping) apply(c *Catalog) *Catalog {
	if last := m.last.Load(); last != nil && last.from == c {
		return last.to
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.last.Load(); last != nil && last.from == c {
		return last.to
	}
	before := m.made
	m.made = make(map[*Entry]*Entry, len(before))
	to := c.mapped(func(e *Entry) *Entry {
		done, known := before[e]
		if !known {
			done = m.entry(e)
		}
		m.made[e] = done
		return done
	}, func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
		return m.more(ctx, c, kind, name)
	})
	m.last.Store(&mapped{c, to})
	return to
}

// entry maps an entry. It is called with mu held.
func (m *mapping) entry(e *Entry) *Entry {
	if to := m.f(e); to != nil {
		return to.finish(nil)
	}
	return nil
}

// more resolves an entry by the name that it has after the mapping.
func (m *mapping) more(ctx context.Context, c *Catalog, kind mcp.Kind, name string) (*Entry, error) {
	inner, ok := m.inner(kind, name)
	if !ok {
		return nil, nil
	}
	e, err := c.Resolve(ctx, kind, inner)
	if e == nil || err != nil {
		return nil, err
	}
	if to := m.of(e); to != nil && to.Kind == kind && to.Name == name {
		return to, nil
	}
	return nil, nil
}

// of returns what an entry that is in no list is mapped to.
func (m *mapping) of(e *Entry) *Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	to, known := m.made[e]
	if !known {
		to, known = m.resolved[e]
	}
	if !known {
		to = m.entry(e)
		if m.resolved == nil || len(m.resolved) == maxResolved {
			m.resolved = make(map[*Entry]*Entry)
		}
		m.resolved[e] = to
	}
	return to
}

package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Catalog is an immutable, indexed list of entries. Its methods may be called concurrently. The
// zero value has no entries.
type Catalog struct {
	entries    [kindCount][]*Entry
	index      [kindCount]map[string]*Entry
	variants   [kindCount]map[string][]*Entry // all entries of a name that has several
	uris       map[string]*Entry              // the resources by [uritemplate.Equivalent] of their URI
	templates  []matcher                      // templates and skills that match URIs, in the order of the parts
	dropped    map[*Entry]droppedURIs         // of templates and skills
	resolve    resolver
	partial    bool
	lists      [kindCount]list
	described  [2]atomic.Pointer[era.Description] // the description of the server with this catalog, before and after its start
	memo       sync.Map                           // any key to *memoized
	collisions []*CollisionError

	// Of a merged catalog:
	bridges []string // see CatalogOptions; also of a catalog that is not merged
	// rootsChanged is CatalogOptions.RootsChanged; also of a catalog that is not merged.
	rootsChanged rootsChange
	parts        []Part
	owners       [kindCount]map[string]string
}

// A resolver looks up an entry that is not listed. See [CatalogOptions].
type resolver = func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error)

// A matcher is a template or skill with the URIs that it must not match, which are the URIs of listed
// resources that were dropped.
type matcher struct {
	*Entry
	dropped droppedURIs
}

func (m *matcher) matches(uri string) bool {
	return m.Match != nil && !m.dropped.has(uri) && m.Match(uri)
}

// droppedURIs are sets of URIs in the form of [uritemplate.Equivalent], which templates share.
type droppedURIs []map[string]bool

func (d droppedURIs) has(uri string) bool {
	if len(d) == 0 {
		return false
	}
	uri = uritemplate.Equivalent(uri)
	return slices.ContainsFunc(d, func(set map[string]bool) bool { return set[uri] })
}

// CatalogOptions configures [NewCatalog].
type CatalogOptions struct {
	// Resolve looks up an entry that is in no list, or not yet, for example by starting the server
	// that has it. It returns nil if there is no such entry. While nothing changes, it returns the
	// same entry for the same name. It may block, and is called concurrently. nil means that all
	// entries are listed.
	//
	// Resolve may return an entry of another name: the given name is then a second name of that
	// entry, which no list has. Guards, middleware and policies get the entry with its own name.
	Resolve func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error)
	// Partial says that more entries of any kind may appear. Servers then declare all kinds to
	// clients.
	Partial bool
	// Bridges are the ids of the bridges that the entries come through. [Merge] joins them, and
	// [Catalog.Map] keeps them. A server adds them to lists; see [mcp.MetaBridges].
	Bridges []string
	// RootsChanged is called when a client in the legacy era has changed its roots, for providers
	// that pass calls on to other servers. It may block. [Merge] and [Catalog.Map] keep it. nil means
	// that the change does not matter: a function that asks with [Roots] gets the current ones.
	RootsChanged func(ctx context.Context, caller *mcp.Caller)
}

// NewCatalog returns a catalog of entries in this order. opts may be nil.
//
// Tools, prompts, resources and templates of the same kind and name are variants if each has a
// Visible, of its own or of a guard, and all have the same scopes: a caller gets the one that it
// sees; see [Catalog.LookupFor]. They are listed where the first one is. Of other entries with the
// same kind and name, the first is offered, and the others are reported by [Catalog.Collisions].
func NewCatalog(entries []*Entry, opts *CatalogOptions) *Catalog {
	c := &Catalog{}
	if opts != nil {
		c.partial, c.bridges, c.rootsChanged = opts.Partial, opts.Bridges, newRootsChange(opts.RootsChanged)
	}
	if opts != nil && opts.Resolve != nil {
		finished := newMapping(func(e *Entry) *Entry { return e })
		c.resolve = func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
			e, err := opts.Resolve(ctx, kind, name)
			if e == nil || err != nil || e.Kind != kind {
				return nil, err
			}
			return finished.mapUnlisted(e), nil
		}
	}
	for _, e := range entries {
		c.add(e.compose(nil), nil)
	}
	return c
}

// add appends an entry, adds a variant, or records a collision.
func (c *Catalog) add(e *Entry, dropped droppedURIs) {
	if first := c.index[e.Kind][e.Name]; first == nil {
		if c.index[e.Kind] == nil {
			c.index[e.Kind] = make(map[string]*Entry)
		}
		c.index[e.Kind][e.Name] = e
		c.entries[e.Kind] = append(c.entries[e.Kind], e)
	} else if err := checkVariant(first, e); err == nil {
		c.addVariant(first, e)
	} else {
		c.collisions = append(c.collisions, &CollisionError{Kind: e.Kind, Name: e.Name})
		return
	}
	if e.Kind == mcp.KindResource {
		if c.uris == nil {
			c.uris = make(map[string]*Entry)
		}
		if equivalent := uritemplate.Equivalent(e.Name); c.uris[equivalent] == nil {
			c.uris[equivalent] = e
		}
	}
	if !kinds[e.Kind].matchesURIs {
		return
	}
	c.templates = append(c.templates, matcher{e, dropped})
	if len(dropped) > 0 {
		if c.dropped == nil {
			c.dropped = make(map[*Entry]droppedURIs)
		}
		c.dropped[e] = dropped
	}
}

// addVariant adds an entry with the name of an earlier one, after all that have it: pages of lists
// begin after a name.
func (c *Catalog) addVariant(first, e *Entry) {
	if c.variants[e.Kind] == nil {
		c.variants[e.Kind] = make(map[string][]*Entry)
	}
	all := c.variants[e.Kind][e.Name]
	if all == nil {
		all = []*Entry{first}
	}
	after := 1 + slices.Index(c.entries[e.Kind], all[len(all)-1])
	c.entries[e.Kind] = slices.Insert(c.entries[e.Kind], after, e)
	c.variants[e.Kind][e.Name] = append(all, e)
}

// sortByName sorts lists by name, by kind. Templates and skills keep their order: the first that matches a URI is read.
func sortByName(lists [][]*Entry) {
	for kind, entries := range lists {
		if !kinds[kind].matchesURIs {
			slices.SortStableFunc(entries, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
		}
	}
}

// checkVariant returns why an entry cannot have the kind and name of the first one.
func checkVariant(first, e *Entry) error {
	switch {
	case !kinds[e.Kind].variants || !first.hides() || !e.hides():
		return fmt.Errorf("the %v is registered already", e.completionKey())
	case !slices.Equal(first.Scopes, e.Scopes): // they are required before a variant is chosen
		return fmt.Errorf("the %v is registered already, with other scopes", e.completionKey())
	}
	return nil
}

// hides reports whether some callers may not see the entry.
func (e *Entry) hides() bool {
	return e.Visible != nil || e.pending != nil && slices.ContainsFunc(e.pending.guards, func(g mcp.Guard) bool { return g.Visible != nil })
}

// All returns an iterator over the entries of a kind, in the order of the list. Variants of a name
// follow each other.
func (c *Catalog) All(kind mcp.Kind) iter.Seq[*Entry] { return slices.Values(c.entries[kind]) }

// Len returns the number of entries of a kind.
func (c *Catalog) Len(kind mcp.Kind) int { return len(c.entries[kind]) }

// Lookup returns the entry with this kind and name, or nil. The name of a resource is its URI. It
// returns the first resource with an equivalent URI if none has the URI itself: scheme and host in another case, or
// percent-encoding where none is needed. For a URI that is not listed, Lookup returns the first
// template or skill that matches it. A URI whose resource was dropped by [Catalog.Map] matches no
// template of that catalog. Of several variants of a name, Lookup returns the first.
func (c *Catalog) Lookup(kind mcp.Kind, name string) *Entry {
	e := c.index[kind][name]
	if e == nil && kind == mcp.KindResource {
		if e = c.uris[uritemplate.Equivalent(name)]; e == nil {
			return c.matchTemplate(name)
		}
	}
	return e
}

// LookupFor returns the entry that [Catalog.Lookup] finds, or its variant, if the caller sees it, and
// otherwise nil. The error says that the caller sees several variants.
func (c *Catalog) LookupFor(ctx context.Context, caller *mcp.Caller, kind mcp.Kind, name string) (*Entry, error) {
	if e := c.Lookup(kind, name); e != nil {
		return c.seenBy(ctx, caller, e)
	}
	return nil, nil
}

// hasVariants reports whether other entries have the kind and name of an entry.
func (c *Catalog) hasVariants(e *Entry) bool { return len(c.variants[e.Kind][e.Name]) > 0 }

// seenBy returns the entry, or its variant, if the caller sees it, and otherwise nil.
func (c *Catalog) seenBy(ctx context.Context, caller *mcp.Caller, e *Entry) (seen *Entry, err error) {
	if !c.hasVariants(e) {
		if !e.visibleTo(ctx, caller) {
			return nil, nil
		}
		return e, nil
	}
	for _, variant := range c.variants[e.Kind][e.Name] {
		switch {
		case !variant.visibleTo(ctx, caller):
		case seen != nil:
			return nil, fmt.Errorf("the caller sees several variants of the %v %.256q: the Visible of one must exclude the others", e.Kind, e.Name)
		default:
			seen = variant
		}
	}
	return seen, nil
}

// has reports whether an entry is one of the catalog's lists.
func (c *Catalog) has(e *Entry) bool {
	return c.index[e.Kind][e.Name] == e || slices.Contains(c.variants[e.Kind][e.Name], e)
}

// lookupRaw is Lookup with the name as a JSON string. It allocates nothing unless the string has
// escapes.
func (c *Catalog) lookupRaw(kind mcp.Kind, name []byte) *Entry {
	if bytes.IndexByte(name, '\\') < 0 {
		if e := c.index[kind][string(name[1:len(name)-1])]; e != nil {
			return e
		}
	}
	return c.Lookup(kind, jsonscan.Unquote(name))
}

func (c *Catalog) matchTemplate(uri string) *Entry {
	for _, t := range c.templates {
		if t.matches(uri) {
			return t.Entry
		}
	}
	return nil
}

// Resolve returns an entry that Lookup does not find, using [CatalogOptions].Resolve of the
// catalogs that this one was made from. It returns nil if there is no such entry. It may block, for
// example while a server starts.
func (c *Catalog) Resolve(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
	if c.resolve == nil {
		return nil, nil
	}
	return c.resolve(ctx, kind, name)
}

// Map returns a catalog in which each entry is replaced by the result of f: the entry itself, a
// changed copy, or nil to drop the entry. f is also applied to entries that are resolved later. Use
// [Catalog.Memo] to keep the result, so that it is computed once for each catalog.
func (c *Catalog) Map(f func(*Entry) *Entry) *Catalog {
	return newMapping(f).apply(c)
}

// mapWith is Map with a given function for entries that are resolved later.
func (c *Catalog) mapWith(f func(*Entry) *Entry, more resolver) *Catalog {
	to := &Catalog{partial: c.partial, bridges: c.bridges, rootsChanged: c.rootsChanged, collisions: slices.Clip(c.collisions)}
	dropped := make(map[string]bool)
	for kind, entries := range c.entries { // resources come before templates and skills
		for i, e := range entries {
			e = f(e)
			switch {
			case e == nil && mcp.Kind(kind) == mcp.KindResource:
				dropped[uritemplate.Equivalent(entries[i].Name)] = true
			case e == nil:
			case kinds[kind].matchesURIs:
				except := c.dropped[entries[i]]
				if len(dropped) > 0 {
					except = append(slices.Clip(except), dropped)
				}
				to.add(e.compose(nil), except)
			default:
				mapped := e.compose(nil)
				to.add(mapped, nil)
				if c.isFirst(entries[i]) && to.index[mapped.Kind][mapped.Name] == mapped {
					to.uris[uritemplate.Equivalent(mapped.Name)] = mapped
				}
			}
		}
	}
	if c.resolve != nil {
		to.resolve = more
	}
	return to
}

// isFirst reports whether an entry is a resource that is read for other spellings of its URI, while others have an equivalent
// URI. It was registered first, whatever the order of the list.
func (c *Catalog) isFirst(e *Entry) bool {
	return e.Kind == mcp.KindResource && len(c.uris) < len(c.entries[e.Kind]) && c.uris[uritemplate.Equivalent(e.Name)] == e
}

// Memo returns the result of build for the key. build is called once for each catalog and key. The
// result is kept as long as the catalog. Keys are compared with ==.
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

// recheck returns an error unless the catalog has the target, or one of equal origin and
// definition.
func (c *Catalog) recheck(ctx context.Context, t *mcp.Target) error {
	now := c.index[t.Kind][t.Name]
	if now == nil {
		var err error
		if now, err = c.Resolve(ctx, t.Kind, t.Name); err != nil {
			return err
		}
	}
	isSame := func(now *Entry) bool {
		return &now.Target == t || now.Origin == t.Origin && now.Definition.Digest() == t.Definition.Digest()
	}
	switch {
	case now == nil:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the %v %.256q is not offered any more", t.Kind, t.Name)}
	case isSame(now), slices.ContainsFunc(c.variants[t.Kind][t.Name], isSame):
		return nil
	default:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the %v %.256q has changed since the call was made", t.Kind, t.Name)}
	}
}

// A mapping applies a function to the entries of a changing catalog. It keeps the results for
// entries that are in the next catalog too, so that their middleware keeps its state. It may be
// used concurrently.
type mapping struct {
	f          func(*Entry) *Entry
	sourceName func(kind mcp.Kind, name string) (string, bool) // the name before f, if the name can be a result of f
	last       atomic.Pointer[mapped]

	mu       sync.Mutex
	byEntry  map[*Entry]*Entry // results for entries of the last catalog
	unlisted map[*Entry]*Entry // results for other entries
}

type mapped struct{ from, to *Catalog }

// maxUnlisted bounds the results that a mapping keeps for entries outside of catalogs.
const maxUnlisted = 1 << 10

// newMapping returns a mapping with a function as in [Catalog.Map].
func newMapping(f func(*Entry) *Entry) *mapping {
	return &mapping{f: f, sourceName: func(_ mcp.Kind, name string) (string, bool) { return name, true }}
}

// apply returns the mapped catalog. It returns the same pointer for the same catalog.
func (m *mapping) apply(c *Catalog) *Catalog {
	if last := m.last.Load(); last != nil && last.from == c {
		return last.to
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.last.Load(); last != nil && last.from == c {
		return last.to
	}
	before := m.byEntry
	m.byEntry = make(map[*Entry]*Entry, len(before))
	to := c.mapWith(func(e *Entry) *Entry {
		done, known := before[e]
		if !known {
			done = m.entry(e)
		}
		m.byEntry[e] = done
		return done
	}, func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
		return m.resolve(ctx, c, kind, name)
	})
	m.last.Store(&mapped{c, to})
	return to
}

// entry maps an entry. m.mu must be held.
func (m *mapping) entry(e *Entry) *Entry {
	if to := m.f(e); to != nil {
		return to.compose(nil)
	}
	return nil
}

// resolve looks up an entry by its name after the mapping.
func (m *mapping) resolve(ctx context.Context, c *Catalog, kind mcp.Kind, name string) (*Entry, error) {
	inner, ok := m.sourceName(kind, name)
	if !ok {
		return nil, nil
	}
	e, err := c.Resolve(ctx, kind, inner)
	if e == nil || err != nil {
		return nil, err
	}
	isSecondName := e.Name != inner
	if to := m.mapUnlisted(e); to != nil && to.Kind == kind && (to.Name == name || isSecondName) {
		return to, nil
	}
	return nil, nil
}

// mapUnlisted maps an entry that is in no list.
func (m *mapping) mapUnlisted(e *Entry) *Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	to, known := m.byEntry[e]
	if !known {
		to, known = m.unlisted[e]
	}
	if !known {
		to = m.entry(e)
		if m.unlisted == nil || len(m.unlisted) == maxUnlisted {
			m.unlisted = make(map[*Entry]*Entry)
		}
		m.unlisted[e] = to
	}
	return to
}

// A Part is one of the catalogs that [Merge] combines.
type Part struct {
	// Owner names the part in messages for the operator.
	Owner   string
	Catalog *Catalog
}

// A CollisionError reports an entry that is not offered because another entry has its name: two
// tools, two prompts, two resources or skills with the same URI, or a resource whose URI matches the
// template or skill of an earlier part.
type CollisionError struct {
	Kind mcp.Kind
	// Name is the name with its prefix, or the URI.
	Name string
	// Owner is the part whose entry is not offered, and Other is the part whose entry is. They are
	// equal if one part has both entries, and "" in a catalog that is not merged.
	Owner, Other string
}

// Error names the entry and both owners. Characters of the name that are not ASCII are escaped, since
// they may look like others.
func (e *CollisionError) Error() string {
	if e.Owner == e.Other {
		return fmt.Sprintf("a second %v %+.256q of %s is not offered", e.Kind, e.Name, cmp.Or(e.Owner, "the catalog"))
	}
	return fmt.Sprintf("the %v %+.256q of %s is not offered: %s has one too; use a prefix", e.Kind, e.Name, e.Owner, e.Other)
}

// newCollisions returns the collisions that are not in known. There may be many of both.
func newCollisions(known, all []*CollisionError) []*CollisionError {
	old := make(map[CollisionError]bool, len(known))
	for _, collision := range known {
		old[*collision] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *CollisionError) bool { return old[*c] })
}

// Merge returns the catalog of all parts, in their order. If two parts have an entry of the same
// kind and name, the part that had the name in previous keeps it, otherwise the first part gets it.
// In the same way, the template of an earlier part keeps the URIs that it matches. Other entries
// are not offered, and are reported by [Catalog.Collisions].
//
// previous is the last result for these parts, or nil. If the parts have not changed, Merge returns
// previous.
func Merge(previous *Catalog, parts ...Part) *Catalog {
	if previous != nil && slices.Equal(previous.parts, parts) {
		return previous
	}
	m := &Catalog{parts: slices.Clone(parts)}
	for _, p := range m.parts {
		m.reserveNames(previous, p)
		m.bridges = append(m.bridges, p.Catalog.bridges...)
	}
	slices.Sort(m.bridges)
	m.bridges = slices.Compact(m.bridges)
	for _, p := range m.parts {
		m.addPart(previous, p)
	}
	m.mergeResolvers()
	m.mergeRootsChanged()
	return m
}

// Collisions returns the entries that are not offered because of another entry. The caller must not
// change the slice.
func (c *Catalog) Collisions() []*CollisionError { return c.collisions }

// duplicates returns the collisions within one catalog, with the given owner.
func (c *Catalog) duplicates(owner string) (all []*CollisionError) {
	for _, e := range c.collisions {
		if e.Owner == "" {
			all = append(all, &CollisionError{e.Kind, e.Name, owner, owner})
		}
	}
	return all
}

// reserveNames assigns the names of a part's entries to the part, unless another part has them.
func (c *Catalog) reserveNames(before *Catalog, p Part) {
	for kind, entries := range p.Catalog.entries {
		for _, e := range entries {
			if c.owners[kind] == nil {
				c.owners[kind] = make(map[string]string)
			}
			if _, claimed := c.owners[kind][e.Name]; !claimed || before.owns(p, e) {
				c.owners[kind][e.Name] = p.Owner
			}
		}
	}
}

// owns reports whether the part had the name.
func (c *Catalog) owns(p Part, e *Entry) bool {
	return c != nil && c.owners[e.Kind][e.Name] == p.Owner && c.index[e.Kind][e.Name] != nil
}

// addPart adds the entries whose names are assigned to the part.
func (c *Catalog) addPart(before *Catalog, p Part) {
	earlier := c.templates
	c.collisions = append(c.collisions, p.Catalog.duplicates(p.Owner)...)
	for kind, entries := range p.Catalog.entries {
		for _, e := range entries {
			other := c.owners[kind][e.Name]
			if e.Kind == mcp.KindResource && other == p.Owner && !before.owns(p, e) {
				other = c.templateOwner(earlier, e.Name, p.Owner)
				c.owners[kind][e.Name] = other // later parts that list the URI collide with the template
			}
			if other != p.Owner {
				c.collisions = append(c.collisions, &CollisionError{e.Kind, e.Name, p.Owner, other})
				continue
			}
			c.add(e, p.Catalog.dropped[e])
			if p.Catalog.isFirst(e) {
				equivalent := uritemplate.Equivalent(e.Name)
				if known := c.uris[equivalent]; c.owners[kind][known.Name] == p.Owner { // and not of an earlier part
					c.uris[equivalent] = e
				}
			}
		}
	}
}

// templateOwner returns the owner of the first template or skill that matches a URI.
func (c *Catalog) templateOwner(templates []matcher, uri, otherwise string) string {
	for _, t := range templates {
		if t.matches(uri) {
			return c.owners[t.Kind][t.Name]
		}
	}
	return otherwise
}

// mergeResolvers sets a resolver that calls the resolvers of the parts in order.
func (c *Catalog) mergeResolvers() {
	var resolving []*Catalog
	for _, p := range c.parts {
		c.partial = c.partial || p.Catalog.partial
		if p.Catalog.resolve != nil {
			resolving = append(resolving, p.Catalog)
		}
	}
	if len(resolving) == 0 {
		return
	}
	c.resolve = func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
		for _, part := range resolving {
			if e, err := part.Resolve(ctx, kind, name); e != nil || err != nil {
				return e, err
			}
		}
		return nil, nil
	}
}

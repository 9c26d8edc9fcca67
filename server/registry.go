package server

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/mcp"
)

// A registry holds the entries that are a server's own.
type registry struct {
	server *Server

	mu          sync.Mutex
	entries     map[entryKey]*registered
	order       []entryKey
	completions map[completionKey]mcp.Handler
	current     atomic.Pointer[Catalog] // nil after a change
}

type entryKey struct {
	kind mcp.Kind
	name string
}

type completionKey struct {
	entryKey
	argument string
}

// registered is an entry, and itself without Complete as long as nothing of it is completed.
type registered struct {
	*Entry
	bare   *Entry
	values map[string][]string // of arguments that may have some values only
}

// catalog returns what is registered now.
func (r *registry) catalog() *Catalog {
	if c := r.current.Load(); c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.current.Load(); c != nil {
		return c
	}
	entries := make([]*Entry, len(r.order))
	for i, key := range r.order {
		e := r.entries[key]
		if entries[i] = e.Entry; !r.completes(key, e) {
			entries[i] = e.bare
		}
	}
	c := NewCatalog(entries, nil)
	r.current.Store(c)
	return c
}

// completes reports whether any argument of an entry has values to offer.
func (r *registry) completes(key entryKey, e *registered) bool {
	if len(e.values) > 0 {
		return true
	}
	for of := range r.completions {
		if of.entryKey == key {
			return true
		}
	}
	return false
}

// put registers entries, all or none. An entry that is there already is replaced
// if replace says so, otherwise it is an error.
func (r *registry) put(entries []*Entry, replace bool) error {
	for _, e := range entries {
		if err := e.check(); err != nil {
			return err
		}
		if err := r.server.checkDependencies(e); err != nil {
			return err
		}
	}
	if err := r.checkCollisions(entries); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[completionKey]bool, len(entries))
	for _, e := range entries {
		key := e.completionKey()
		if there := r.has(key); seen[key] || there && !replace {
			return fmt.Errorf("the %v is registered already", key)
		}
		seen[key] = true
	}
	for _, e := range entries {
		r.register(e)
	}
	r.current.Store(nil)
	return nil
}

// checkCollisions refuses new names that something mounted has.
func (r *registry) checkCollisions(entries []*Entry) error {
	if len(r.server.mounted()) == 0 {
		return nil
	}
	own, all := r.catalog(), r.server.Catalog()
	for _, e := range entries {
		if e.isListed() && own.index[e.Kind][e.Name] == nil && all.Lookup(e.Kind, e.Name) != nil {
			return &CollisionError{e.Kind, e.Name, ownPart, all.owners[e.Kind][all.Lookup(e.Kind, e.Name).Name]}
		}
	}
	return nil
}

// register is called with mu held.
func (r *registry) register(e *Entry) {
	key, s := e.completionKey(), r.server
	if !e.isListed() {
		if r.completions == nil {
			r.completions = make(map[completionKey]mcp.Handler)
		}
		r.completions[key] = e.draft.bind(s, nil)
		return
	}
	if r.entries == nil {
		r.entries = make(map[entryKey]*registered)
	}
	if r.entries[key.entryKey] == nil {
		r.order = append(r.order, key.entryKey)
	}
	reg := &registered{}
	if e.draft != nil {
		reg.values = e.draft.values
	}
	completing := *e
	if completing.Complete == nil {
		completing.Complete = func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return r.complete(ctx, call, key.entryKey, reg)
		}
	}
	reg.Entry = completing.require(s.options.Scopes, s.options.Metadata).Wrap(s.options.Guards, s.options.CallMiddleware).finish(s)
	if reg.bare = reg.Entry; e.Complete == nil {
		bare := *reg.Entry
		bare.Complete = nil
		reg.bare = &bare
	}
	r.entries[key.entryKey] = reg
}

func (r *registry) has(key completionKey) bool {
	if key.argument != "" {
		return r.completions[key] != nil
	}
	return r.entries[key.entryKey] != nil
}

// completionKey is the key of an entry; only that of a completion names an argument.
func (e *Entry) completionKey() completionKey {
	key := completionKey{entryKey: entryKey{e.Kind, e.Name}}
	if e.draft != nil {
		key.argument = e.draft.argument
	}
	return key
}

func (k completionKey) String() string {
	if k.argument != "" {
		return fmt.Sprintf("completion of %q of the %v %q", k.argument, k.kind, k.name)
	}
	return fmt.Sprintf("%v %q", k.kind, k.name)
}

// complete answers a call for the values of an argument: by what was registered for it,
// or those that its type allows.
func (r *registry) complete(ctx context.Context, call *mcp.Call, of entryKey, reg *registered) (mcp.Result, error) {
	argument, err := stringMember(call, "argument", "name")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	handle := r.completions[completionKey{of, argument}]
	r.mu.Unlock()
	if handle != nil {
		return handle(ctx, call)
	}
	values, ok := reg.values[argument]
	if !ok {
		return completeNothing(call, reg.Entry)
	}
	typed, err := stringMember(call, "argument", "value")
	if err != nil {
		return nil, err
	}
	return completed(slices.DeleteFunc(slices.Clone(values), func(value string) bool { return !strings.HasPrefix(value, typed) })), nil
}

// remove takes entries out and reports whether any was there.
func (r *registry) remove(kind mcp.Kind, names []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.entries)
	maps.DeleteFunc(r.entries, func(key entryKey, _ *registered) bool { return key.kind == kind && slices.Contains(names, key.name) })
	if len(r.entries) == before {
		return false
	}
	r.order = slices.DeleteFunc(r.order, func(key entryKey) bool { return r.entries[key] == nil })
	r.current.Store(nil)
	return true
}

// Replace registers entries, in place of those with the same kind and name if
// there are any: all of them, or none and an error. Clients are notified once for
// each kind of list that changed.
func (s *Server) Replace(entries ...*Entry) error {
	if err := s.registry.put(entries, true); err != nil {
		return err
	}
	s.notifyLists(entries)
	return nil
}

// Remove takes entries out of those registered here, by their kind and names (the URI of a
// resource, the template of a template). Names that are not registered are ignored.
func (s *Server) Remove(kind mcp.Kind, names ...string) {
	if s.registry.remove(kind, names) {
		s.changes.notify(listChange(kind))
	}
}

// ResourceUpdated notifies the clients that subscribed to a resource that it has changed.
func (s *Server) ResourceUpdated(uri string) { s.ResourceUpdatedFor("", uri) }

// ResourceUpdatedFor is [Server.ResourceUpdated] for a resource that has changed for one
// principal only (see [mcp.Caller]): other callers are not notified. Callers that are not
// authenticated have no principal of their own: for "" all subscribers are notified.
func (s *Server) ResourceUpdatedFor(principal, uri string) {
	if uri != "" {
		s.changes.notify(mcp.Change{Kind: mcp.KindResource, URI: uri, For: principal})
	}
}

func (s *Server) notifyLists(entries []*Entry) {
	var notified []mcp.Change
	for _, e := range entries {
		if change := listChange(e.Kind); e.isListed() && !slices.Contains(notified, change) {
			notified = append(notified, change)
			s.changes.notify(change)
		}
	}
}

// listChange is the change of a list. Resources and templates are one.
func listChange(kind mcp.Kind) mcp.Change {
	if kind == mcp.KindResourceTemplate {
		kind = mcp.KindResource
	}
	return mcp.Change{Kind: kind}
}

// mustAdd registers one new entry for start-up code. It panics, naming the place
// of the caller's caller, when the entry cannot be made or is there already.
func (s *Server) mustAdd(entry *Entry, err error) {
	if err == nil {
		err = s.registry.put([]*Entry{entry}, false)
	}
	if err != nil {
		_, file, line, _ := runtime.Caller(2)
		panic(fmt.Sprintf("%s:%d: %v", file, line, err))
	}
	s.notifyLists([]*Entry{entry})
}

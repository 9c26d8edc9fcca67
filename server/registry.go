package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/mcp"
)

// A registry holds the entries that are registered with a server.
type registry struct {
	server *Server

	mu          sync.Mutex
	entries     map[entryKey][]*registration // several if they are variants
	order       []entryKey
	completions map[entryKey]map[string]*Entry // by argument, which Handle completes
	current     atomic.Pointer[Catalog]        // nil after a change
}

type entryKey struct {
	kind mcp.Kind
	name string
}

type completionKey struct {
	entryKey
	argument string
}

// A registration is an entry as the server offers it, and the same entry without Complete for as
// long as it has no completions.
type registration struct {
	*Entry
	uncompleted *Entry
	registered  *Entry
	values      map[string][]string // allowed values of arguments that have an enum
}

// catalog returns the registered entries.
func (r *registry) catalog() *Catalog {
	if c := r.current.Load(); c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.current.Load(); c != nil {
		return c
	}
	entries := make([]*Entry, 0, len(r.order))
	for _, key := range r.order {
		for _, e := range r.entries[key] {
			if len(e.values) == 0 && len(r.completions[key]) == 0 {
				entries = append(entries, e.uncompleted)
			} else {
				entries = append(entries, e.Entry)
			}
		}
	}
	c := NewCatalog(entries, nil)
	if !r.server.options.RegistrationOrder {
		sortByName(c.entries[:])
	}
	r.current.Store(c)
	return c
}

// register adds all entries or none. If replace is true, they replace all entries with their names.
// Otherwise an entry that exists already is an error, unless both are variants of the name.
func (r *registry) register(entries []*Entry, replace bool) error {
	if err := r.check(entries); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := make(map[completionKey]*Entry, len(entries))
	if !replace {
		for _, e := range entries {
			first[e.completionKey()] = r.registered(e.completionKey())
		}
	}
	if err := checkNames(entries, first); err != nil {
		return err
	}
	for key := range first {
		if replace && r.entries[key.entryKey] != nil && key.argument == "" {
			r.entries[key.entryKey] = []*registration{} // it keeps its place in the order
		}
	}
	for _, e := range entries {
		r.add(e)
	}
	r.current.Store(nil)
	return nil
}

// replaceAll replaces all entries, or none after an error. It returns the old and new entries of the lists that have changed.
func (r *registry) replaceAll(entries []*Entry) (changed []*Entry, err error) {
	if err := r.check(entries); err != nil {
		return nil, err
	}
	if err := checkNames(entries, make(map[completionKey]*Entry, len(entries))); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.lists()
	r.entries, r.order, r.completions = nil, nil, nil
	for _, e := range entries {
		r.add(e)
	}
	r.current.Store(nil)
	for kind, now := range r.lists() {
		if !slices.Equal(before[kind], now) {
			changed = append(append(changed, before[kind]...), now...)
		}
	}
	return changed, nil
}

// lists returns the registered entries of each kind, in the order of the list. r.mu must be held.
func (r *registry) lists() (all [kindCount][]*Entry) {
	for _, key := range r.order {
		for _, e := range r.entries[key] {
			all[key.kind] = append(all[key.kind], e.registered)
		}
	}
	if !r.server.options.RegistrationOrder {
		sortByName(all[:])
	}
	return all
}

// check rejects entries that could not be listed or called.
func (r *registry) check(entries []*Entry) error {
	for _, e := range entries {
		if err := e.check(); err != nil {
			return err
		}
		if err := r.server.checkDependencies(e); err != nil {
			return err
		}
	}
	return r.checkCollisions(entries)
}

// checkNames rejects entries with the name of an earlier one, unless both are variants of it. first has the first entry of
// each name, and gets those of new names.
func checkNames(entries []*Entry, first map[completionKey]*Entry) error {
	for _, e := range entries {
		key := e.completionKey()
		if other := first[key]; other == nil {
			first[key] = e
		} else if err := checkVariant(other, e); err != nil {
			return err
		}
	}
	return nil
}

// checkCollisions rejects new names that a mount has.
func (r *registry) checkCollisions(entries []*Entry) error {
	mounts := r.server.mounted()
	if len(mounts) == 0 {
		return nil
	}
	r.mu.Lock()
	added := slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return !e.isListed() || r.registered(e.completionKey()) != nil })
	r.mu.Unlock()
	for _, m := range mounts {
		mounted := m.part().Catalog
		for _, e := range added {
			if mounted.Lookup(e.Kind, e.Name) != nil {
				return &CollisionError{e.Kind, e.Name, serverPart, m.owner}
			}
		}
	}
	return nil
}

// add adds one entry. r.mu must be held.
func (r *registry) add(e *Entry) {
	key, s := e.completionKey(), r.server
	if !e.isListed() {
		if r.completions == nil {
			r.completions = make(map[entryKey]map[string]*Entry)
		}
		if r.completions[key.entryKey] == nil {
			r.completions[key.entryKey] = make(map[string]*Entry)
		}
		bound := *e
		bound.Handle = e.pending.bind(s, nil)
		r.completions[key.entryKey][key.argument] = &bound
		return
	}
	if r.entries == nil {
		r.entries = make(map[entryKey][]*registration)
	}
	if r.entries[key.entryKey] == nil {
		r.order = append(r.order, key.entryKey)
	}
	reg := &registration{registered: e}
	if e.pending != nil {
		reg.values = e.pending.values
	}
	completing := *e
	if e.Kind == mcp.KindEvent && s.options.Webhooks != nil {
		if definition, err := withDelivery(s, e.Definition); err == nil {
			completing.Definition = definition
		}
	}
	if s.options.TopLevelTags {
		completing.Definition = withTopLevelTags(completing.Definition)
	}
	if completing.Complete == nil {
		completing.Complete = func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return r.complete(ctx, call, key.entryKey, reg)
		}
	}
	reg.Entry = completing.withRequirements(s.options.Scopes, s.options.Metadata).Wrap(s.options.Guards, s.options.CallMiddleware).compose(s)
	if reg.uncompleted = reg.Entry; e.Complete == nil {
		bare := *reg.Entry
		bare.Complete = nil
		reg.uncompleted = &bare
	}
	r.entries[key.entryKey] = append(r.entries[key.entryKey], reg)
}

// withTopLevelTags returns a definition with its tags as the member "tags" too.
func withTopLevelTags(definition *mcp.Definition) *mcp.Definition {
	tags := definition.Tags()
	if len(tags) == 0 {
		return definition
	}
	encoded, err := jsonvalue.Marshal(tags)
	if err != nil {
		return definition
	}
	with, err := jsonscan.Splice(nil, definition.JSON(), jsonscan.Edit{Name: "tags", Value: encoded})
	if err != nil {
		return definition
	}
	return mcp.NewDefinition(with)
}

// registered returns the first entry with a key, as it was registered, or nil. r.mu must be held.
func (r *registry) registered(key completionKey) *Entry {
	if key.argument != "" {
		return r.completions[key.entryKey][key.argument]
	}
	if all := r.entries[key.entryKey]; len(all) > 0 {
		return all[0].registered
	}
	return nil
}

// completionKey returns the key of an entry. Only completions have an argument.
func (e *Entry) completionKey() completionKey {
	key := completionKey{entryKey: entryKey{e.Kind, e.Name}}
	if e.pending != nil {
		key.argument = e.pending.argument
	}
	return key
}

func (k completionKey) String() string {
	if k.argument != "" {
		return fmt.Sprintf("completion of %q of the %v %q", k.argument, k.kind, k.name)
	}
	return fmt.Sprintf("%v %q", k.kind, k.name)
}

// complete returns the values of an argument, from the registered completion or from the argument's
// enum.
func (r *registry) complete(ctx context.Context, call *mcp.Call, of entryKey, reg *registration) (mcp.Result, error) {
	argument, err := stringMember(call, "argument", "name")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	completion := r.completions[of][argument]
	r.mu.Unlock()
	if completion != nil {
		return completion.Handle(ctx, call)
	}
	values, ok := reg.values[argument]
	if !ok {
		return emptyCompletion(call, reg.Entry)
	}
	typed, err := stringMember(call, "argument", "value")
	if err != nil {
		return nil, err
	}
	return completionResult(slices.DeleteFunc(slices.Clone(values), func(value string) bool { return !strings.HasPrefix(value, typed) })), nil
}

// remove removes entries and reports whether there were any.
func (r *registry) remove(kind mcp.Kind, names []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.entries)
	for _, name := range names {
		delete(r.entries, entryKey{kind, name})
	}
	if len(r.entries) == before {
		return false
	}
	r.order = slices.DeleteFunc(r.order, func(key entryKey) bool { return r.entries[key] == nil })
	r.current.Store(nil)
	return true
}

// Replace registers entries, and replaces those with the same kind and name. It registers all of
// them, or none and returns an error. Several entries with one name are variants of it, see
// [NewCatalog], and replace all variants that were registered. Clients are notified once for each
// kind of list that changed. It may be called at any time and concurrently. The error is a
// *[CollisionError] if a mount has one of the names.
func (s *Server) Replace(entries ...*Entry) error {
	if err := s.registry.register(entries, true); err != nil {
		return err
	}
	s.notifyLists(entries)
	return nil
}

// ReplaceAll registers entries in place of all that are registered, in this order, completions included. It registers all of
// them, or none and returns an error, as [Server.Replace] does. Calls get either the old or the new
// entries. Clients are notified once for each kind of list that changed: a list of the same entries in
// the same order has not. It may be called at any time and concurrently. Mounts stay.
func (s *Server) ReplaceAll(entries ...*Entry) error {
	changed, err := s.registry.replaceAll(entries)
	if err != nil {
		return err
	}
	s.notifyLists(changed)
	return nil
}

// Remove removes registered entries by kind and name, with all variants: the URI of a resource, the
// URI template of a template. Unknown names are ignored. Clients are notified once. It may be called at any time and
// concurrently.
func (s *Server) Remove(kind mcp.Kind, names ...string) {
	if s.registry.remove(kind, names) {
		s.raise(listChange(kind))
	}
}

// ResourceUpdated notifies subscribers that the resource has changed. It does not block, and may be
// called concurrently.
func (s *Server) ResourceUpdated(uri string) { s.ResourceUpdatedFor("", uri) }

// ResourceUpdatedFor notifies subscribers with this principal (see [mcp.Caller]) that the resource
// has changed for them. With the principal "" it notifies all subscribers, since callers without
// authentication cannot be told apart.
func (s *Server) ResourceUpdatedFor(principal, uri string) {
	if uri != "" {
		s.raise(mcp.Change{Kind: mcp.KindResource, URI: uri, For: principal})
	}
}

// ListChanged notifies clients that the list of a kind has changed, for example because a guard decides
// otherwise now. Changes of what is registered or mounted are announced without it. Resources,
// templates and skills have one notification. With [Options].Store, the clients of all replicas are
// notified. A server that has this one mounted notifies its clients too; those of its replicas are
// notified if this server has a Store. ListChanged does not block, and may be called concurrently.
func (s *Server) ListChanged(kind mcp.Kind) { s.ListChangedFor("", kind) }

// ListChangedFor is [Server.ListChanged] for the clients with this principal (see [mcp.Caller]). With
// the principal "" it notifies all clients, since callers without authentication cannot be told apart.
func (s *Server) ListChangedFor(principal string, kind mcp.Kind) {
	change := listChange(kind)
	change.For = principal
	s.raise(change)
}

func (s *Server) notifyLists(entries []*Entry) {
	var notified []mcp.Change
	for _, e := range entries {
		if change := listChange(e.Kind); e.isListed() && !slices.Contains(notified, change) {
			notified = append(notified, change)
			s.raise(change)
		}
	}
}

// mustAdd registers a new entry. If that fails, it panics with the file and line of the caller's
// caller.
func (s *Server) mustAdd(entry *Entry, err error) {
	if err == nil {
		err = s.registry.register([]*Entry{entry}, false)
	}
	if err != nil {
		_, file, line, _ := runtime.Caller(2)
		panic(fmt.Sprintf("%s:%d: %v", file, line, err))
	}
	s.notifyLists([]*Entry{entry})
}

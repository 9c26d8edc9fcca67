package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// An Entry is something that can be registered: [NewTool], [NewResource] and
// the like make it.
type Entry interface {
	key() entryKey
	listed() Listed
	within(more Around) Entry
	needs() []reflect.Type
	need(types []reflect.Type)
	metadata() map[string]any
	hides() bool
	isVisible(ctx context.Context, s *Server, list *mcp.Call) bool
	call(ctx context.Context, s *Server, call *mcp.Call) (mcp.Result, error)
}

type kind uint8

const (
	toolKind kind = iota
	resourceKind
	templateKind
	promptKind
	completionKind
)

func (k kind) String() string {
	return [...]string{"tool", "resource", "resource template", "prompt", "completion"}[k]
}

// entryKey names an entry among all of a server.
type entryKey struct {
	kind kind
	name string
}

// isRead says whether what has the key is called by resources/read.
func (k entryKey) isRead() bool { return k.kind == resourceKind || k.kind == templateKind }

// A registry is the server's own [Provider]. Calls read an immutable snapshot;
// it is made anew by the first reader after a change.
type registry struct {
	server  *Server
	around  Around // every entry
	mu      sync.Mutex
	entries map[entryKey]Entry
	order   []entryKey
	current atomic.Pointer[snapshot]
}

// A snapshot is the registry as it was between two changes.
type snapshot struct {
	catalogue Catalogue
	entries   map[entryKey]Entry
	templates []*templateEntry
	hides     bool // something, from somebody
}

func (r *registry) snapshot() *snapshot {
	if s := r.current.Load(); s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.current.Load(); s != nil {
		return s
	}
	s := &snapshot{entries: make(map[entryKey]Entry, len(r.entries))}
	for _, key := range r.order {
		s.add(key, r.entries[key])
	}
	r.current.Store(s)
	return s
}

func (s *snapshot) add(key entryKey, entry Entry) {
	s.entries[key] = entry
	s.hides = s.hides || entry.hides()
	switch key.kind {
	case toolKind:
		s.catalogue.Tools = append(s.catalogue.Tools, entry.listed())
	case resourceKind:
		s.catalogue.Resources = append(s.catalogue.Resources, entry.listed())
	case templateKind:
		template := entry.(*templateEntry)
		s.catalogue.Templates = append(s.catalogue.Templates, entry.listed())
		s.templates = append(s.templates, template)
		s.catalogue.Completes = s.catalogue.Completes || len(template.values) > 0
	case promptKind:
		s.catalogue.Prompts = append(s.catalogue.Prompts, entry.listed())
		s.catalogue.Completes = s.catalogue.Completes || len(entry.(*promptEntry).values) > 0
	case completionKind:
		s.catalogue.Completes = true
	}
}

// Catalogue is what is registered now.
func (r *registry) Catalogue() *Catalogue { return &r.snapshot().catalogue }

// Call answers a call for a registered entry.
func (r *registry) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	switch method := call.Method(); method {
	case mcp.MethodToolsCall:
		return r.callNamed(ctx, toolKind, call)
	case mcp.MethodPromptsGet:
		return r.callNamed(ctx, promptKind, call)
	case mcp.MethodResourcesRead:
		return r.read(ctx, call)
	case mcp.MethodComplete:
		return r.complete(ctx, call)
	default:
		return nil, methodNotFound(method)
	}
}

// callNamed answers a call for the tool or prompt it names.
func (r *registry) callNamed(ctx context.Context, kind kind, call *mcp.Call) (mcp.Result, error) {
	if entry := named(r.snapshot().entries, kind, call.Member("name")); entry != nil {
		return entry.call(ctx, r.server, call)
	}
	name, err := stringMember(call, "name")
	if err != nil {
		return nil, err
	}
	return nil, unknown(entryKey{kind, name}, call)
}

// named returns what has a name, which stands here as a call has it; zero if nothing does.
func named[V any](all map[entryKey]V, kind kind, raw json.RawMessage) (none V) {
	switch {
	case jsonscan.KindOf(raw) != jsonscan.String:
		return none
	case bytes.IndexByte(raw, '\\') >= 0:
		return all[entryKey{kind, jsonscan.Unquote(raw)}]
	}
	return all[entryKey{kind, string(raw[1 : len(raw)-1])}] // nothing is copied for a look-up
}

func (r *registry) hides() bool { return r.snapshot().hides }

// isVisible says whether the caller of a list may see an entry of it.
func (r *registry) isVisible(ctx context.Context, key entryKey, list *mcp.Call) bool {
	entry := r.snapshot().entries[key]
	return entry == nil || entry.isVisible(ctx, r.server, list)
}

// Run reports changes until ctx ends.
func (r *registry) Run(ctx context.Context, changed func(mcp.Change)) error {
	stop := r.server.changes.watchAll(changed)
	defer stop()
	<-ctx.Done()
	return nil
}

var _ Provider = (*registry)(nil)

// put registers entries, all or none. An entry that is there already is replaced
// if replace says so, else an error.
func (r *registry) put(entries []Entry, replace bool) error {
	if err := r.server.checkNeeds(entries); err != nil {
		return err
	}
	if err := r.server.provider.refuseNew(entries); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[entryKey]bool, len(entries))
	for _, e := range entries {
		key := e.key()
		if _, there := r.entries[key]; seen[key] || there && !replace {
			return fmt.Errorf("the %v %q is registered already", key.kind, key.name)
		}
		seen[key] = true
	}
	if r.entries == nil {
		r.entries = make(map[entryKey]Entry)
	}
	for _, e := range entries {
		key := e.key()
		if _, there := r.entries[key]; !there {
			r.order = append(r.order, key)
		}
		r.entries[key] = e.within(r.around)
	}
	r.current.Store(nil)
	return nil
}

func (r *registry) has(key entryKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.entries[key]
	return there
}

// remove takes entries out and says whether any was there.
func (r *registry) remove(kind kind, names []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.entries)
	for _, name := range names {
		delete(r.entries, entryKey{kind, name})
	}
	if len(r.entries) == before {
		return false
	}
	r.order = slices.DeleteFunc(r.order, func(key entryKey) bool {
		_, there := r.entries[key]
		return !there
	})
	r.current.Store(nil)
	return true
}

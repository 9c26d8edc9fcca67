package bridge

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// catalogOf returns what is offered of a server's lists. Entries that are as they were
// before are the same. Of two tools or prompts that would have one name none is offered: one
// must not be called in place of the other. Of two resources with one URI the first is. What
// is not offered is logged, and kept with the catalog.
func (u *Upstream) catalogOf(l *lists, before *server.Catalog) *server.Catalog {
	type key struct {
		kind mcp.Kind
		name string
	}
	// Resources that are not selected are dropped at the end, so that no template matches them.
	listed := slices.DeleteFunc(slices.Clone(l.entries), func(entry listed) bool {
		return entry.kind != mcp.KindResource && !u.selects(entry.kind, entry.name)
	})
	uses := make(map[key]int)
	for _, entry := range listed {
		uses[key{entry.kind, u.nameOf(entry)}]++
	}
	var entries []*server.Entry
	var refused []error
	owner := ownerOf(u.alias)
	for _, entry := range listed {
		at := key{entry.kind, u.nameOf(entry)}
		count := uses[at]
		uses[at] = 0
		if count == 0 {
			refused = append(refused, &server.CollisionError{Kind: at.kind, Name: at.name, Owner: owner, Other: owner})
			continue
		}
		if count > 1 && isNamed(at.kind) {
			continue
		}
		e, err := u.entry(entry, at.name, l.completes)
		if err != nil {
			refused = append(refused, fmt.Errorf("the %v %.256q of %s: %w", entry.kind, entry.name, owner, err))
			continue
		}
		if old := before.Lookup(at.kind, at.name); old != nil && isSame(old, e) {
			e = old
		}
		entries = append(entries, e)
	}
	opts := &server.CatalogOptions{Resolve: u.resolve}
	if !l.cached {
		opts = nil
		refused = append(refused, u.missing(l)...)
	}
	c := server.NewCatalog(entries, opts).Map(func(e *server.Entry) *server.Entry {
		if !u.selects(e.Kind, e.Origin.Name) {
			return nil
		}
		return e
	})
	logNew(u.opts.Logger, notOffered(before), refused)
	c.Memo(notOfferedKey{}, func() any { return refused })
	return c
}

// isNamed reports whether entries of a kind get names of the bridge's own.
func isNamed(kind mcp.Kind) bool { return kind == mcp.KindTool || kind == mcp.KindPrompt }

func isSame(old, now *server.Entry) bool {
	return old.Kind == now.Kind && old.Origin == now.Origin && (old.Complete == nil) == (now.Complete == nil) &&
		bytes.Equal(old.Definition.JSON(), now.Definition.JSON())
}

func (u *Upstream) selects(kind mcp.Kind, name string) bool {
	return u.opts.Select == nil || u.opts.Select(kind, name)
}

// nameOf returns the name that an entry has here.
func (u *Upstream) nameOf(l listed) string {
	if !isNamed(l.kind) {
		return l.name
	}
	if renamed, ok := u.opts.Rename[l.name]; ok {
		return u.name(renamed)
	}
	return u.name(l.name)
}

// entry returns a listed entry as it is offered here.
func (u *Upstream) entry(l listed, name string, completes bool) (*server.Entry, error) {
	definition, err := u.definition(l, name)
	if err != nil {
		return nil, err
	}
	own := l.name
	if own == name {
		own = "" // calls have it already
	}
	e := &server.Entry{Target: mcp.Target{
		Kind: l.kind, Name: name, Definition: mcp.NewDefinition(definition),
		Origin: mcp.Origin{Server: u.alias, Name: l.name, Launch: u.opts.Launch, Trusted: u.opts.Trusted},
	}}
	e.Handle = u.forward(e, own)
	if !isNamed(l.kind) {
		e.Subscribe = func(ctx context.Context, call *mcp.Call) (func(), error) { return u.subscribe(ctx, call.URI()) }
	}
	if l.kind == mcp.KindResourceTemplate {
		e.Match = matching(l.name)
	}
	if completes && (l.kind == mcp.KindPrompt || l.kind == mcp.KindResourceTemplate) {
		e.Complete = e.Handle
	}
	return e, nil
}

// definition returns the definition of an entry with the name and the words that it has
// here.
func (u *Upstream) definition(l listed, name string) ([]byte, error) {
	var edits []jsonscan.Edit
	change := func(member, value string) {
		edits = append(edits, jsonscan.Edit{Name: member, Value: jsonscan.AppendString(nil, value)})
	}
	if name != l.name {
		change("name", name)
	}
	if override := u.opts.Override[l.name]; l.kind == mcp.KindTool {
		if override.Title != "" {
			change("title", override.Title)
		}
		if override.Description != "" {
			change("description", override.Description)
		}
	}
	if len(edits) == 0 {
		return l.definition, nil
	}
	return jsonscan.Splice(nil, l.definition, edits...)
}

// matching returns what matches URIs with a template; nil if that is not possible here.
// Then the resources are read that are listed too.
func matching(template string) func(uri string) bool {
	parsed, err := uritemplate.Parse(template)
	if err != nil {
		return nil
	}
	matcher, err := parsed.Matcher()
	if err != nil {
		return nil
	}
	return func(uri string) bool {
		_, ok := matcher.Match(uri)
		return ok
	}
}

// startLazy starts a server of which cached definitions are offered. What guards have
// decided about a call was decided about these: a tool that has become another is not
// called.
func (u *Upstream) startLazy(ctx context.Context, e *server.Entry) error {
	if !u.pool.main.sleeps || isClosed(u.loaded) {
		return nil
	}
	if err := u.wake(ctx); err != nil {
		return err
	}
	if now := u.Catalog().Lookup(e.Kind, e.Name); now == nil || e.Kind == mcp.KindTool && now.Definition.Digest() != e.Definition.Digest() {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the %v is not as it was listed: list again", e.Kind)}
	}
	return nil
}

// forward returns the handler that passes a call on, when there is room for it, by the session
// that is for its caller.
func (u *Upstream) forward(e *server.Entry, name string) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if err := u.startLazy(ctx, e); err != nil {
			return nil, err
		}
		if err := u.limit.enter(ctx); err != nil {
			return nil, notRun(ctx, u.alias, err)
		}
		defer u.limit.leave()
		session, slot, err := u.pool.acquire(ctx, call.Caller)
		if err != nil {
			return nil, notRun(ctx, u.alias, err)
		}
		asked := false
		defer func() { slot.release(ctx, asked) }()
		result, err := session.Forward(ctx, call, &client.ForwardOptions{Name: name, ServerLabel: u.alias, Timeout: u.opts.CallTimeout})
		if err != nil {
			_, asked = mcp.AsInputRequired(err)
			return nil, failed(ctx, u.alias, err)
		}
		slot.hear()
		return result, nil
	}
}

// resolve finds an entry of a server whose lists have not been read yet: it waits for
// that, and starts a lazy server. A name chooses the server by its prefix; then the lists
// decide. A URI can be of any server: of those of a bridge it waits for the ones that are
// being started, starts none that has a cached catalog, and passes over those that fail.
func (u *Upstream) resolve(ctx context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
	if isClosed(u.loaded) {
		return u.Catalog().Lookup(kind, name), nil
	}
	byPrefix := u.alias == "" || isNamed(kind)
	if byPrefix && !strings.HasPrefix(name, u.prefix) || !byPrefix && u.pool.main.sleeps {
		return nil, nil
	}
	err := u.wake(ctx)
	if err != nil && (byPrefix || ctx.Err() != nil) {
		return nil, err
	}
	return u.Catalog().Lookup(kind, name), nil
}

// wake starts the server if it waits to be needed, and waits until its lists have been read.
func (u *Upstream) wake(ctx context.Context) error {
	if err := u.pool.await(ctx); err != nil {
		return notRun(ctx, u.alias, err)
	}
	u.pool.main.want()
	return u.waitReady(ctx)
}

// changes are the lists that differ between two catalogs. Templates are in that of resources.
func changes(before, now *server.Catalog) (found []mcp.Change) {
	for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
		change := mcp.Change{Kind: min(kind, mcp.KindResource)}
		if !sameList(kind, before, now) && !slices.Contains(found, change) {
			found = append(found, change)
		}
	}
	return found
}

func sameList(kind mcp.Kind, a, b *server.Catalog) bool {
	return slices.EqualFunc(slices.Collect(a.All(kind)), slices.Collect(b.All(kind)), func(a, b *server.Entry) bool {
		return a == b || a.Name == b.Name && bytes.Equal(a.Definition.JSON(), b.Definition.JSON())
	})
}

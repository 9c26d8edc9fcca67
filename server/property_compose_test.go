package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A composer composes providers at random, each with its model.
type composer struct {
	*rand.Rand
	t      *testing.T
	passed trace // guards that were asked or run
	made   int
}

type composed struct {
	server.Provider
	want *wantCatalog
}

// build composes providers, up to so deep.
func (c *composer) build(depth int) composed {
	if depth == 0 {
		return c.market()
	}
	parts := []composed{c.build(depth - 1)}
	if c.IntN(3) == 0 {
		return c.mapped(parts[0])
	}
	for range c.IntN(3) {
		parts = append(parts, c.build(c.IntN(depth)))
	}
	if c.IntN(2) == 0 {
		return c.merged(parts)
	}
	s, want := c.serve(0, parts)
	return composed{s.Provider(), want}
}

// market is a provider with a catalog of its own, which may resolve more than it lists.
func (c *composer) market() composed {
	entries, want := c.entries()
	more, resolved := c.entries()
	want.resolved = resolved.listed
	m := newMarket()
	m.offer.Store(server.NewCatalog(entries, &server.CatalogOptions{Partial: true, Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		if i := slices.IndexFunc(more, func(e *server.Entry) bool { return e.Kind == kind && e.Name == name }); i >= 0 {
			return more[i], nil
		}
		return nil, nil
	}}))
	return composed{m, want}
}

// mapped is a provider whose entries are dropped, or surrounded by more.
func (c *composer) mapped(of composed) composed {
	around, layer := c.surround()
	dropped := make(map[wantKey]bool)
	for _, key := range of.want.keys() {
		dropped[key] = c.IntN(4) == 0
	}
	made := &remade{Provider: of.Provider, f: func(e *server.Entry) *server.Entry {
		if dropped[wantKey{e.Kind, e.Name}] {
			return nil
		}
		changed := *e
		changed.Scopes = slices.Concat(around.Scopes, e.Scopes)
		return changed.Wrap(around.Guards, nil)
	}}
	return composed{made, of.want.without(func(key wantKey) bool { return dropped[key] }).within("", layer, around.Scopes)}
}

type remade struct {
	server.Provider
	f func(*server.Entry) *server.Entry
}

func (r *remade) Catalog() *server.Catalog {
	from := r.Provider.Catalog()
	return from.Memo(r, func() any { return from.Map(r.f) }).(*server.Catalog)
}

// merged is one provider of several.
func (c *composer) merged(parts []composed) composed {
	want, all := &wantCatalog{}, 0
	for _, part := range parts {
		var lost int
		want, lost = want.merged(part.want)
		all += lost
	}
	made := &union{parts: parts}
	if n := len(made.Catalog().Collisions()); n != all {
		c.t.Errorf("there are %d collisions, want %d", n, all)
	}
	return composed{made, want}
}

type union struct {
	parts []composed
	last  atomic.Pointer[server.Catalog]
}

func (u *union) Catalog() *server.Catalog {
	var parts []server.Part
	for i, part := range u.parts {
		parts = append(parts, server.Part{Owner: fmt.Sprint(i), Catalog: part.Catalog()})
	}
	made := server.Merge(u.last.Load(), parts...)
	u.last.Store(made)
	return made
}

func (u *union) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	var starting, running sync.WaitGroup
	errs := make([]error, len(u.parts))
	for i, part := range u.parts {
		starting.Add(1)
		running.Go(func() {
			started := sync.OnceFunc(starting.Done)
			defer started()
			errs[i] = part.Run(ctx, started, changed)
		})
	}
	starting.Wait()
	ready()
	running.Wait()
	return errors.Join(errs...)
}

// serve is a server with entries of its own and all parts mounted, but for those that
// collide: they are refused.
func (c *composer) serve(pageSize int, parts []composed) (*server.Server, *wantCatalog) {
	around, outer := c.surround()
	opts := around.options()
	opts.PageSize = pageSize
	s := newServer(opts)
	entries, want := c.entries()
	replace(c.t, s, entries...)
	for i, e := range want.listed { // which are in one layer with the server
		want.listed[i].layers = [][]wantGuard{slices.Concat(outer, e.layers[0])}
		want.listed[i].scopes = slices.Concat(around.Scopes, e.scopes)
	}
	for _, part := range parts {
		of, inner := c.surround()
		prefix := []string{"", "p_", "q."}[c.IntN(3)]
		mounted := part.want.within(prefix, slices.Concat(outer, inner), slices.Concat(around.Scopes, of.Scopes))
		err := s.Mount(part, &server.MountOptions{Prefix: prefix, Guards: of.Guards, Scopes: of.Scopes})
		both, lost := want.merged(mounted)
		if _, refused := errors.AsType[*server.CollisionError](err); refused != (lost > 0) || err != nil && !refused {
			c.t.Fatalf("mounting what has %d collisions gives %v", lost, err)
		}
		if lost == 0 {
			want = both
		} else {
			want.gone = append(want.gone, mounted.keys()...)
		}
	}
	return s, want
}

// entries makes up to five entries.
func (c *composer) entries() (entries []*server.Entry, want *wantCatalog) {
	want = &wantCatalog{}
	for range c.IntN(6) {
		key := c.key()
		if slices.ContainsFunc(want.listed, withKey(key)) {
			continue
		}
		around, layer := c.surround()
		answer := c.next("answer")
		e := c.entry(key, answer, around)
		entries = append(entries, e)
		want.listed = append(want.listed, wantEntry{key, answer, string(e.Definition.JSON()), around.Scopes, [][]wantGuard{layer}, nil})
	}
	return entries, want
}

// key makes one of few names, so that some entries collide.
func (c *composer) key() wantKey {
	kind, n := mcp.KindTool+mcp.Kind(c.IntN(4)), c.IntN(16)
	switch {
	case kind == mcp.KindResource:
		return wantKey{kind, fmt.Sprintf("app:%d/%d", n%6, n/8)}
	case kind == mcp.KindResourceTemplate && n == 0:
		return wantKey{kind, "app:{+rest}"}
	case kind == mcp.KindResourceTemplate:
		return wantKey{kind, fmt.Sprintf("app:%d/{id}", n%6)}
	}
	return wantKey{kind, fmt.Sprint("n", n)}
}

// entry makes an entry, typed or not, whose function and completion give an answer.
func (c *composer) entry(key wantKey, answer string, around surround) *server.Entry {
	if key.kind == mcp.KindTool && c.IntN(2) == 0 {
		e, err := server.NewTool(server.Tool{Name: key.name, Guards: around.Guards, Scopes: around.Scopes},
			func(context.Context, *server.Request, struct{}) (string, error) { return answer, nil })
		if err != nil {
			c.t.Fatal(err)
		}
		return e
	}
	member := map[mcp.Kind]string{mcp.KindTool: "name", mcp.KindPrompt: "name", mcp.KindResource: "uri", mcp.KindResourceTemplate: "uriTemplate"}[key.kind]
	e := &server.Entry{Target: mcp.Target{
		Kind: key.kind, Name: key.name, Scopes: around.Scopes, Definition: mcp.NewDefinition(jsonRaw(`{"x": [1.0], "` + member + `":"` + key.name + `" }`)),
	}}
	e.Handle = func(context.Context, *mcp.Call) (mcp.Result, error) {
		return mcp.Raw(`{"content":[],"contents":[],"messages":[],"completion":{"values":[]},"is":"` + answer + `"}`), nil
	}
	switch key.kind {
	case mcp.KindPrompt:
		e.Complete = e.Handle
	case mcp.KindResourceTemplate:
		e.Complete = e.Handle
		e.Match = func(uri string) bool { return strings.HasPrefix(uri, key.prefix()) }
	}
	return e.Wrap(around.Guards, nil)
}

// surround makes up to two guards, and a scope.
func (c *composer) surround() (around surround, want []wantGuard) {
	for range c.IntN(3) {
		w := wantGuard{name: c.next("guard"), sees: c.IntN(2) == 0, checks: c.IntN(3) == 0, runs: c.IntN(3) == 0}
		w.runs = w.runs || !w.sees && !w.checks
		w.hides = w.sees && c.IntN(4) == 0
		g := mcp.Guard{Name: w.name}
		if w.sees {
			g.Visible = func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
				c.passed.step("see " + w.name)
				return !w.hides || caller.Info.Name == "staff"
			}
		}
		if w.checks {
			g.Check = func(context.Context, *mcp.Call) error { c.passed.step("check " + w.name); return nil }
		}
		if w.runs {
			g.Run = func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					c.passed.step("run " + w.name)
					return next(ctx, call)
				}
			}
		}
		around.Guards, want = append(around.Guards, g), append(want, w)
	}
	if c.IntN(2) == 0 {
		around.Scopes = []string{c.next("scope")}
	}
	return around, want
}

// next is a name that nothing else has.
func (c *composer) next(what string) string {
	c.made++
	return fmt.Sprint(what, c.made, ".")
}

package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const compositions, fewCompositions = 300, 20 // the latter with -short, under the race detector, and over transports other than the pipe

// TestCompositions composes providers at random, by Map, Merge and Mount, and compares the server
// with a model. The name of each test has its seed: run TestCompositions/seed_7 to repeat it.
func TestCompositions(t *testing.T) {
	rounds := compositions
	if testing.Short() || racetest.Enabled || !transporttests.IsPipe() {
		rounds = fewCompositions
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := &composer{Rand: rand.New(rand.NewPCG(seed, 0)), t: t}
			era, depth, pageSize := client.Legacy, c.IntN(4), max(0, c.IntN(5)-1)
			if c.IntN(2) == 0 && transporttests.CarriesModern() {
				era = client.Modern
			}
			s, want := c.serve(pageSize, []composed{c.build(depth)})
			shutDownAtEnd(t, s)
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkCatalog(t, s, want)
			for _, as := range []string{"staff", "guest"} {
				session, staff := connectAs(t, s, era, as), as == "staff"
				checkLists(t, session, want, staff, pageSize)
				for _, key := range want.keys() {
					c.checkCalls(session, want, key, staff)
				}
				c.checkSubscriptions(session, era, want, staff)
				if t.Failed() {
					t.Fatalf("this was for the %s, era %v, depth %d, pages of %d", as, era, depth, pageSize)
				}
			}
		})
	}
}

// checkCatalog: what is listed or resolved is found by its name, with its definition and all
// scopes, and what is gone is not.
func checkCatalog(t *testing.T, s *server.Server, want *wantCatalog) {
	for _, key := range want.keys() {
		e, w := s.Catalog().Lookup(key.kind, key.name), want.find(key)
		var err error
		if e == nil {
			e, err = s.Catalog().Resolve(t.Context(), key.kind, key.name)
		}
		switch {
		case err != nil || (e == nil) != (w == nil):
			t.Errorf("the %v %q is found: %t, %v; want %t", key.kind, key.name, e != nil, err, w != nil)
		case w != nil && (e.Kind != w.kind || e.Name != w.name || string(e.Definition.JSON()) != w.definition || !slices.Equal(sorted(e.Scopes), sorted(w.scopes))):
			t.Errorf("the %v %q is %+v %s, want %+v", key.kind, key.name, e.Target, e.Definition.JSON(), *w)
		}
	}
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// checkLists: a list is the definitions of what its reader may see, byte by byte and in order,
// and its pages are full.
func checkLists(t *testing.T, session *client.Session, want *wantCatalog, staff bool, pageSize int) {
	for kind, list := range map[mcp.Kind]struct{ method, member string }{
		mcp.KindTool: {mcp.MethodToolsList, "tools"}, mcp.KindPrompt: {mcp.MethodPromptsList, "prompts"},
		mcp.KindResource: {mcp.MethodResourcesList, "resources"}, mcp.KindResourceTemplate: {mcp.MethodResourceTemplatesList, "resourceTemplates"},
	} {
		var pages, definitions []string
		for params := `{}`; params != ""; {
			text, err := raw(t, session, list.method, params)
			var result map[string]json.RawMessage
			var entries []json.RawMessage
			if err = errors.Join(err, json.Unmarshal([]byte(text), &result), json.Unmarshal(result[list.member], &entries)); err != nil {
				t.Fatalf("%s: %s, %v", list.method, text, err)
			}
			if params = ""; result["nextCursor"] != nil {
				params = `{"cursor":` + string(result["nextCursor"]) + `}`
			}
			if n := len(entries); params != "" && n != pageSize || pageSize > 0 && n > pageSize || n == 0 && len(pages) > 0 || len(pages) > len(want.listed) {
				t.Fatalf("%s: page %d, of up to %d, is %s", list.method, len(pages)+1, pageSize, text)
			}
			pages = append(pages, strings.Trim(string(result[list.member]), "[]"))
		}
		for _, e := range want.listed {
			if e.kind == kind && !e.hides(staff) {
				definitions = append(definitions, e.definition)
			}
		}
		if got, want := strings.Join(pages, ","), strings.Join(definitions, ","); got != want {
			t.Errorf("%s: listed is\n%s, want\n%s", list.method, got, want)
		}
	}
}

// checkCalls: a call by a name, and its completion, ask all guards and reach the function that
// has the name, or none.
func (c *composer) checkCalls(session *client.Session, want *wantCatalog, key wantKey, staff bool) {
	check := func(method, params string, steps []string, answer string) {
		c.t.Helper()
		c.passed.take()
		result, err := raw(c.t, session, method, params)
		if got := c.passed.take(); !slices.Equal(got, steps) {
			c.t.Errorf("%s %s: asked are %q, want %q", method, params, got, steps)
		}
		if (err == nil) != (answer != "") || !strings.Contains(result, answer) {
			c.t.Errorf("%s %s: the answer is %s, %v, want %q", method, params, result, err, answer)
		}
	}
	complete := func(ref string) {
		steps, seen := want.find(key).asked(staff, false)
		var answer string
		if seen {
			var more []string
			more, answer = want.find(key).call(staff)
			steps = append(steps, more...)
		}
		check(mcp.MethodComplete, `{"ref":{"type":"ref/`+ref+`":"`+key.name+`"},"argument":{"name":"x","value":""}}`, steps, answer)
	}
	steps, answer := want.find(key).call(staff)
	switch key.kind {
	case mcp.KindTool:
		check(mcp.MethodToolsCall, `{"name":"`+key.name+`","arguments":{}}`, steps, answer)
	case mcp.KindPrompt:
		check(mcp.MethodPromptsGet, `{"name":"`+key.name+`"}`, steps, answer)
		complete(`prompt","name`)
	case mcp.KindResource:
		check(mcp.MethodResourcesRead, `{"uri":"`+key.uri()+`"}`, steps, answer)
	case mcp.KindResourceTemplate:
		steps, answer = want.find(wantKey{mcp.KindResource, key.uri()}).call(staff)
		check(mcp.MethodResourcesRead, `{"uri":"`+key.uri()+`"}`, steps, answer)
		complete(`resource","uri`)
	}
}

// checkSubscriptions: resources are agreed to if their reader may see them, after all guards
// have been asked.
func (c *composer) checkSubscriptions(session *client.Session, era client.Era, want *wantCatalog, staff bool) {
	has := session.Capabilities().Resources
	for _, key := range want.keys() {
		if key.uri() == "" || has == nil {
			continue
		}
		steps, agreed := want.find(wantKey{mcp.KindResource, key.uri()}).asked(staff, true)
		c.passed.take()
		var err error
		if era == client.Modern {
			err = subscribed(c.t.Context(), session, key.uri())
		} else {
			_, err = raw(c.t, session, mcp.MethodResourcesSubscribe, `{"uri":"`+key.uri()+`"}`)
			_, _ = raw(c.t, session, mcp.MethodResourcesUnsubscribe, `{"uri":"`+key.uri()+`"}`)
		}
		if got := slices.Compact(c.passed.take()); !slices.Equal(got, steps) || agreed && err != nil || !agreed && !mcp.IsResourceNotFound(err) {
			c.t.Errorf("subscribing to %s gives %v, and asked are %q; want %t, %q", key.uri(), err, got, agreed, steps)
		}
	}
}

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

// testProvider is a provider with a catalog of its own, which may resolve more than it lists.
func (c *composer) market() composed {
	entries, want := c.entries()
	more, resolved := c.entries()
	want.resolved = resolved.listed
	m := newTestProvider()
	m.catalog.Store(server.NewCatalog(entries, &server.CatalogOptions{Partial: true, Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
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
	opts.PageSize, opts.RegistrationOrder = pageSize, c.IntN(2) == 0
	s := newServer(opts)
	entries, want := c.entries()
	if !opts.RegistrationOrder {
		slices.SortStableFunc(want.listed, func(a, b wantEntry) int {
			if a.kind != b.kind || a.kind == mcp.KindResourceTemplate { // which keep the order of registration
				return cmp.Compare(a.kind, b.kind)
			}
			return cmp.Compare(a.name, b.name)
		})
	}
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
func (c *composer) entry(key wantKey, answer string, around options) *server.Entry {
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

// options makes up to two guards, and a scope.
func (c *composer) surround() (around options, want []wantGuard) {
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

// The model of a catalog: what each of its entries must have, and which of them a name
// selects.
type (
	wantCatalog struct {
		listed, resolved []wantEntry
		gone             []wantKey // what was dropped, or lost to another
	}
	wantEntry struct {
		wantKey
		answer     string // of its function
		definition string
		scopes     []string
		layers     [][]wantGuard // outermost first; a layer decides about a call before it runs it
		except     []string      // URIs that a template does not match
	}
	wantKey struct {
		kind mcp.Kind
		name string
	}
	wantGuard struct {
		name                      string
		sees, hides, checks, runs bool // hides: from everybody but the staff
	}
)

// uri is the URI of a resource, or of one resource of a template.
func (k wantKey) uri() string {
	switch k.kind {
	case mcp.KindResource:
		return k.name
	case mcp.KindResourceTemplate:
		return k.prefix() + "9"
	}
	return ""
}

// prefix is what the URIs of a template begin with; nothing else is matched here.
func (k wantKey) prefix() string { before, _, _ := strings.Cut(k.name, "{"); return before }

// keys are all names that the catalog has, or has lost.
func (w *wantCatalog) keys() []wantKey {
	var keys []wantKey
	for _, e := range slices.Concat(w.listed, w.resolved, entriesOf(w.gone)) {
		if !slices.Contains(keys, e.wantKey) {
			keys = append(keys, e.wantKey)
		}
	}
	return keys
}

func entriesOf(keys []wantKey) (entries []wantEntry) {
	for _, key := range keys {
		entries = append(entries, wantEntry{wantKey: key})
	}
	return entries
}

func withKey(key wantKey) func(wantEntry) bool {
	return func(e wantEntry) bool { return e.wantKey == key }
}

// find returns the entry of a name or URI: one that is listed, the first template that
// matches, one that is resolved, or nil.
func (w *wantCatalog) find(key wantKey) *wantEntry {
	if i := slices.IndexFunc(w.listed, withKey(key)); i >= 0 {
		return &w.listed[i]
	}
	if i := slices.IndexFunc(w.listed, func(e wantEntry) bool {
		return key.kind == mcp.KindResource && e.kind == mcp.KindResourceTemplate && strings.HasPrefix(key.name, e.prefix()) && !slices.Contains(e.except, key.name)
	}); i >= 0 {
		return &w.listed[i]
	}
	if i := slices.IndexFunc(w.resolved, withKey(key)); i >= 0 {
		return &w.resolved[i]
	}
	return nil
}

// within is the catalog with something more around all entries.
func (w *wantCatalog) within(prefix string, layer []wantGuard, scopes []string) *wantCatalog {
	within := func(entries []wantEntry) (all []wantEntry) {
		for _, e := range entries {
			if e.kind == mcp.KindTool || e.kind == mcp.KindPrompt {
				e.definition = strings.Replace(e.definition, `"name":"`, `"name":"`+prefix, 1)
				e.name = prefix + e.name
			}
			e.layers, e.scopes = slices.Concat([][]wantGuard{layer}, e.layers), slices.Concat(scopes, e.scopes)
			all = append(all, e)
		}
		return all
	}
	all := &wantCatalog{listed: within(w.listed), resolved: within(w.resolved)}
	for _, e := range within(entriesOf(w.gone)) {
		all.gone = append(all.gone, e.wantKey)
	}
	return all
}

// without is the catalog with entries dropped.
func (w *wantCatalog) without(drops func(wantKey) bool) *wantCatalog {
	left := &wantCatalog{gone: slices.Clone(w.gone)}
	drop := func(entries []wantEntry) (kept []wantEntry, dropped []string) {
		for _, e := range entries {
			if drops(e.wantKey) {
				left.gone, dropped = append(left.gone, e.wantKey), append(dropped, e.name)
			} else {
				kept = append(kept, e)
			}
		}
		return kept, dropped
	}
	var dropped []string
	left.listed, dropped = drop(w.listed)
	left.resolved, _ = drop(w.resolved)
	for i, e := range left.listed {
		left.listed[i].except = slices.Concat(e.except, dropped)
	}
	return left
}

// merged is the catalog with another behind it, and how many entries that one loses.
func (w *wantCatalog) merged(next *wantCatalog) (both *wantCatalog, lost int) {
	both = &wantCatalog{slices.Clone(w.listed), slices.Concat(w.resolved, next.resolved), slices.Concat(w.gone, next.gone)}
	before := &wantCatalog{listed: w.listed}
	for _, e := range next.listed {
		if before.find(e.wantKey) == nil {
			both.listed = append(both.listed, e)
		} else {
			both.gone = append(both.gone, e.wantKey)
			lost++
		}
	}
	return both, lost
}

// hides reports whether a list does not have the entry.
func (e *wantEntry) hides(staff bool) bool {
	return !staff && slices.ContainsFunc(slices.Concat(e.layers...), func(g wantGuard) bool { return g.hides })
}

// call returns what a call asks and runs on its way, and what it gets: "" if it is refused.
func (e *wantEntry) call(staff bool) (steps []string, answer string) {
	if e == nil {
		return nil, ""
	}
	for _, layer := range e.layers {
		for _, g := range layer {
			switch {
			case g.checks:
				steps = append(steps, "check "+g.name)
			case g.sees:
				if steps = append(steps, "see "+g.name); g.hides && !staff {
					return steps, ""
				}
			}
		}
		for _, g := range layer {
			if g.runs {
				steps = append(steps, "run "+g.name)
			}
		}
	}
	return steps, e.answer
}

// asked returns what a subscription asks, or only whether it may be seen, as a completion
// does before it is a call.
func (e *wantEntry) asked(staff, checks bool) (steps []string, agreed bool) {
	if e == nil {
		return nil, false
	}
	for _, g := range slices.Concat(e.layers...) {
		switch {
		case g.checks && checks:
			steps = append(steps, "check "+g.name)
		case g.sees:
			if steps = append(steps, "see "+g.name); g.hides && !staff {
				return steps, false
			}
		}
	}
	return steps, true
}

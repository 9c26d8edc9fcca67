package server_test

import (
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

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

// uri is that of a resource, or of one of a template.
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
		if g.sees {
			if steps = append(steps, "see "+g.name); g.hides && !staff {
				return steps, false
			}
		}
		if g.checks && checks {
			steps = append(steps, "check "+g.name)
		}
	}
	return steps, true
}

package policy

import (
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// A match is a compiled [Match].
type match struct {
	label                   string // "unless[1]", of an exception
	servers, names, exposed globs
	roles, principals, tags globs
	kinds                   []mcp.Kind
	annotations             *Annotations
	arguments               []argument
}

func compileMatch(path string, m *Match) (c match, err error) {
	c.kinds, c.annotations = slices.Clone(m.Kinds), m.Annotations
	for _, kind := range m.Kinds {
		if !slices.Contains([]mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindResource, mcp.KindResourceTemplate}, kind) {
			return c, &CompileError{path + ".kinds", fmt.Sprintf("expected tool, prompt, resource or resource template, found %.60q", kind.String())}
		}
	}
	if m.Kinds != nil && len(m.Kinds) == 0 {
		return c, &CompileError{path + ".kinds", errNothing}
	}
	for _, list := range []struct {
		name     string
		patterns []string
		into     *globs
	}{
		{".servers", m.Servers, &c.servers}, {".names", m.Names, &c.names}, {".exposed", m.Exposed, &c.exposed},
		{".tags", m.Tags, &c.tags}, {".roles", m.Roles, &c.roles}, {".principals", m.Principals, &c.principals},
	} {
		if list.patterns != nil && len(list.patterns) == 0 {
			return c, &CompileError{path + list.name, errNothing}
		}
		if *list.into, err = compileGlobs(path+list.name, list.patterns, MaxTerms); err != nil {
			return c, err
		}
	}
	if a := m.Annotations; a != nil {
		hints := *a // and no longer what the caller may change
		c.annotations = &hints
		for _, hint := range []**bool{&hints.ReadOnly, &hints.Destructive, &hints.Idempotent, &hints.OpenWorld} {
			if *hint != nil {
				*hint = new(**hint)
			}
		}
	}
	if len(m.Arguments) > MaxTerms {
		return c, &CompileError{path + ".arguments", fmt.Sprintf("there are %d, and may be %d", len(m.Arguments), MaxTerms)}
	}
	for i := range m.Arguments {
		a, err := compileArgument(fmt.Sprintf("%s.arguments[%d]", path, i), &m.Arguments[i])
		if err != nil {
			return c, err
		}
		c.arguments = append(c.arguments, a)
	}
	return c, nil
}

// errNothing refuses what looks as if it matched nothing, and would match everything.
const errNothing = "a list without anything in it matches nothing: leave it out to match everything"

// holds says whether all of it matches, and what not. What the arguments of a listed
// request would say is assumed.
func (m *match) holds(q *Request, assumed truth) (t truth, because string) {
	switch {
	case !m.servers.match(q.Target.Origin.Server):
		return no, "servers"
	case !m.names.match(q.name()):
		return no, "names"
	case !m.exposed.match(q.exposed()):
		return no, "exposed"
	case len(m.kinds) > 0 && !slices.Contains(m.kinds, q.kind()):
		return no, "kinds"
	case !m.roles.match(q.Role):
		return no, "roles"
	case !m.principals.match(q.Principal):
		return no, "principals"
	}
	t = yes
	also := func(other truth, what string) {
		if other < t {
			t, because = other, what
		}
	}
	if len(m.tags) > 0 {
		also(m.tagged(q), "tags")
	}
	if m.annotations != nil {
		also(m.annotations.holds(q), "annotations")
	}
	for i := range m.arguments {
		if t == no {
			break
		}
		if q.Listed {
			also(assumed, "arguments")
			break
		}
		also(m.arguments[i].holds(q.Arguments), m.arguments[i].label)
	}
	return t, because
}

// tagged says whether one of the tags matches. An untrusted server may have left out the one
// that would.
func (m *match) tagged(q *Request) truth {
	if !q.isTrusted() {
		return unknown
	}
	return of(slices.ContainsFunc(q.Target.Definition.Tags(), m.tags.match))
}

// holds says whether the hints of a tool are these. What an untrusted server says of its
// tools, nobody knows.
func (a *Annotations) holds(q *Request) truth {
	if q.kind() != mcp.KindTool {
		return no
	}
	if !q.isTrusted() {
		return unknown
	}
	hints := q.Target.Definition.Annotations()
	readOnly := isSet(hints.ReadOnlyHint, false)
	return of(is(a.ReadOnly, readOnly) &&
		is(a.Destructive, !readOnly && isSet(hints.DestructiveHint, true)) &&
		is(a.Idempotent, isSet(hints.IdempotentHint, false)) &&
		is(a.OpenWorld, isSet(hints.OpenWorldHint, true)))
}

func isSet(hint *bool, byDefault bool) bool {
	if hint == nil {
		return byDefault
	}
	return *hint
}

func is(want *bool, hint bool) bool { return want == nil || *want == hint }

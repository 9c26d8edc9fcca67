package policy

import (
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// A tristate is a truth value that may be unknown. Its values are ordered as in Kleene's
// three-valued logic: "and" is the minimum, "or" the maximum.
type tristate uint8

const (
	no tristate = iota
	unknown
	yes
)

func (t tristate) not() tristate { return yes - t }

func tristateOf(holds bool) tristate {
	if holds {
		return yes
	}
	return no
}

// A compiledMatch is a compiled [Match].
type compiledMatch struct {
	label                   string // "unless[1]", of an exception
	servers, names, exposed globs
	roles, principals, tags globs
	kinds                   []mcp.Kind
	annotations             *Annotations
	arguments               []compiledArgument
}

func compileMatch(path string, m *Match) (c compiledMatch, err error) {
	c.kinds = slices.Clone(m.Kinds)
	for _, kind := range m.Kinds {
		if !slices.Contains([]mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindResource, mcp.KindResourceTemplate, mcp.KindSkill, mcp.KindEvent}, kind) {
			return c, &CompileError{path + ".kinds", fmt.Sprintf("expected tool, prompt, resource, resource template, skill or event, found %.60q", kind.String())}
		}
	}
	if m.Kinds != nil && len(m.Kinds) == 0 {
		return c, &CompileError{path + ".kinds", emptyList}
	}
	for _, list := range []struct {
		name     string
		patterns []string
		into     *globs
	}{
		{".servers", m.Servers, &c.servers}, {".names", m.Names, &c.names}, {".exposed", m.Exposed, &c.exposed},
		{".tags", m.Tags, &c.tags}, {".roles", m.Roles, &c.roles}, {".principals", m.Principals, &c.principals},
	} {
		if *list.into, err = compileTerms(path+list.name, list.patterns); err != nil {
			return c, err
		}
	}
	if a := m.Annotations; a != nil {
		c.annotations = &Annotations{clone(a.ReadOnly), clone(a.Destructive), clone(a.Idempotent), clone(a.OpenWorld)}
	}
	if err := checkCount(path+".arguments", len(m.Arguments), maxTerms); err != nil {
		return c, err
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

func clone(b *bool) *bool {
	if b == nil {
		return nil
	}
	return new(*b)
}

// holds reports whether all parts match, and if not, which one does not. For a listed
// request, assumed is the result of all predicates of arguments.
func (m *compiledMatch) holds(q *namedRequest, assumed tristate) (t tristate, failed string) {
	if !m.servers.match(q.Target.Origin.Server) {
		return no, "servers"
	}
	names, exposed := m.names.holds(q.name), m.exposed.holds(q.exposed)
	switch {
	case names == no:
		return no, "names"
	case exposed == no:
		return no, "exposed"
	case len(m.kinds) > 0 && !slices.Contains(m.kinds, q.kind()):
		return no, "kinds"
	case !m.roles.matchAny(q.Roles):
		return no, "roles"
	case !m.principals.match(q.Principal):
		return no, "principals"
	}
	t = yes
	and := func(part tristate, name string) {
		if part < t {
			t, failed = part, name
		}
	}
	and(names, "names")
	and(exposed, "exposed")
	if len(m.tags) > 0 {
		and(m.matchTags(q), "tags")
	}
	if m.annotations != nil {
		and(m.annotations.holds(q), "annotations")
	}
	if q.Listed && len(m.arguments) > 0 {
		and(assumed, "arguments")
		return t, failed
	}
	for i := range m.arguments {
		if t == no {
			break
		}
		and(m.arguments[i].holds(q.Arguments), m.arguments[i].label)
	}
	return t, failed
}

// matchTags is unknown for an untrusted server, which may omit a tag.
func (m *compiledMatch) matchTags(q *namedRequest) tristate {
	if !q.isTrusted() {
		return unknown
	}
	return tristateOf(slices.ContainsFunc(q.Target.Definition.Tags(), m.tags.match))
}

// holds reports whether the hints of a tool have these values. For an untrusted server that
// is unknown.
func (a *Annotations) holds(q *namedRequest) tristate {
	if q.kind() != mcp.KindTool {
		return no
	}
	if !q.isTrusted() {
		return unknown
	}
	hints := q.Target.Definition.Annotations()
	readOnly := valueOf(hints.ReadOnlyHint, false)
	is := func(want *bool, hint bool) bool { return want == nil || *want == hint }
	return tristateOf(is(a.ReadOnly, readOnly) &&
		is(a.Destructive, !readOnly && valueOf(hints.DestructiveHint, true)) &&
		is(a.Idempotent, valueOf(hints.IdempotentHint, false)) &&
		is(a.OpenWorld, valueOf(hints.OpenWorldHint, true)))
}

func valueOf(hint *bool, defaultValue bool) bool {
	if hint == nil {
		return defaultValue
	}
	return *hint
}

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Compiled is a policy that decides. Use [Compile]. It does not change, and may be used
// concurrently.
type Compiled struct {
	base     *Effective
	stranger *Effective // for those who have no role among roles
	roles    map[string]*Effective
	rules    []ruling // first those that deny, then those that ask, then those that allow
	asks     int      // where those that ask begin
	allows   int
	exempt   map[Exemption]bool

	byName, byExposed, byServer index // each rule is in one of them
}

// Compile returns what decides by a policy, of which it keeps nothing. nil allows
// everything. The error is a *[CompileError].
func Compile(p *Policy) (*Compiled, error) {
	if p == nil {
		p = new(Policy)
	}
	c := &Compiled{roles: make(map[string]*Effective), exempt: make(map[Exemption]bool)}
	if err := c.compileLists(p); err != nil {
		return nil, err
	}
	if err := c.compileRules(p.Rules); err != nil {
		return nil, err
	}
	for i, e := range p.Exempt {
		if e.Tool == "" {
			return nil, &CompileError{fmt.Sprintf("exempt[%d].tool", i), "a tool has a name"}
		}
		c.exempt[e] = true
	}
	return c, nil
}

func (c *Compiled) compileLists(p *Policy) (err error) {
	if c.base, err = newEffective("", RoleOverride{Allow: p.Allow, Deny: p.Deny}, nil); err != nil {
		return err
	}
	if len(p.Roles) > MaxRoles {
		return &CompileError{"role_overrides", fmt.Sprintf("there are %d, and may be %d", len(p.Roles), MaxRoles)}
	}
	for _, role := range slices.Sorted(maps.Keys(p.Roles)) {
		where := fmt.Sprintf("role_overrides[%q].", role)
		if role == "" {
			return &CompileError{where, "a role has a name"}
		}
		override, base := p.Roles[role], c.base
		switch override.Mode {
		case Replace:
			base = nil
		case Restrict, "":
		default:
			return &CompileError{where + "mode", fmt.Sprintf("expected restrict or replace, found %.60q", override.Mode)}
		}
		if c.roles[role], err = newEffective(where, override, base); err != nil {
			return err
		}
	}
	c.stranger = c.base
	if p.Strict {
		c.stranger, err = newEffective("", RoleOverride{Deny: []string{"*"}}, nil)
	}
	return err
}

func (c *Compiled) compileRules(rules []Rule) error {
	if len(rules) > MaxRules {
		return &CompileError{"rules", fmt.Sprintf("there are %d, and may be %d", len(rules), MaxRules)}
	}
	for i := range rules {
		r, err := compileRule(i, &rules[i])
		if err != nil {
			return err
		}
		c.rules = append(c.rules, r)
	}
	slices.SortStableFunc(c.rules, func(a, b ruling) int { return cmp.Compare(a.decision.Effect, b.decision.Effect) })
	before := func(e Effect) int {
		at := slices.IndexFunc(c.rules, func(r ruling) bool { return r.decision.Effect >= e })
		if at < 0 {
			return len(c.rules)
		}
		return at
	}
	c.asks, c.allows = before(Ask), before(Allow)
	for i := range c.rules {
		c.index(i)
	}
	return nil
}

// index puts a rule where it is found by the beginnings of its patterns, if all have some.
func (c *Compiled) index(i int) {
	m := &c.rules[i].match
	for _, by := range []struct {
		globs globs
		index *index
	}{{m.names, &c.byName}, {m.exposed, &c.byExposed}, {m.servers, &c.byServer}} {
		if len(by.globs) == 0 || slices.ContainsFunc(by.globs, func(g glob) bool { return g.literal == "" }) {
			continue
		}
		for _, g := range by.globs {
			by.index.add(g.literal, i)
		}
		return
	}
	c.byName.add("", i)
}

// Resolve returns the lists that are for a role. For one that has no override, and for
// "", those are the policy's own, or if it is strict what denies everything.
func (c *Compiled) Resolve(role string) *Effective {
	if e := c.roles[role]; e != nil {
		return e
	}
	return c.stranger
}

// A CompileError is a policy that says nothing that could be decided by.
type CompileError struct {
	// Path is where it is wrong, such as rules[2].arguments[0].path.
	Path string
	// Message says what was expected.
	Message string
}

func (e *CompileError) Error() string {
	return "policy: " + strings.TrimSuffix(e.Path, ".") + ": " + e.Message
}

// compileGlobs compiles a list of patterns of which there may be none.
func compileGlobs(path string, patterns []string, most int) (globs, error) {
	if len(patterns) > most {
		return nil, &CompileError{path, fmt.Sprintf("there are %d, and may be %d", len(patterns), most)}
	}
	compiled := make(globs, len(patterns))
	for i, pattern := range patterns {
		if err := checkText(pattern); err != nil {
			return nil, &CompileError{fmt.Sprintf("%s[%d]", path, i), err.Error()}
		}
		compiled[i] = compileGlob(pattern)
	}
	return compiled, nil
}

func checkText(text string) error {
	switch {
	case len(text) > MaxPattern:
		return fmt.Errorf("it has %d bytes, and may have %d", len(text), MaxPattern)
	case !utf8.ValidString(text):
		return errors.New("it is not UTF-8")
	}
	return nil
}

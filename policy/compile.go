package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Compiled is a policy that [Compile] has compiled. It does not change, and may be used
// concurrently.
type Compiled struct {
	base        *Resolved
	defaultRole *Resolved // for callers whose role is not in roles
	roles       map[string]*Resolved
	rules       []compiledRule // sorted by effect, strictest first
	exempt      map[Exemption]bool
}

// Compile compiles a policy and keeps no reference to it. A nil policy allows everything.
// The error is a *[CompileError].
func Compile(p *Policy) (*Compiled, error) {
	if p == nil {
		p = new(Policy)
	}
	c := &Compiled{roles: make(map[string]*Resolved), exempt: make(map[Exemption]bool)}
	if err := c.compileLists(p); err != nil {
		return nil, err
	}
	if err := checkCount("rules", len(p.Rules), maxRules); err != nil {
		return nil, err
	}
	for i := range p.Rules {
		r, err := compileRule(i, &p.Rules[i])
		if err != nil {
			return nil, err
		}
		c.rules = append(c.rules, r)
	}
	slices.SortStableFunc(c.rules, func(a, b compiledRule) int { return cmp.Compare(a.decision.Effect, b.decision.Effect) })
	for i, e := range p.Exempt {
		if e.Tool == "" {
			return nil, &CompileError{fmt.Sprintf("exempt[%d].tool", i), "expected the name of a tool"}
		}
		c.exempt[e] = true
	}
	return c, nil
}

// AskAll returns a policy that asks about each call of a tool, and allows everything else.
func AskAll() *Compiled {
	tools := Match{Kinds: []mcp.Kind{mcp.KindTool}}
	compiled, err := Compile(&Policy{Rules: []Rule{
		{Name: "tools", Effect: Ask, Match: tools},
		{Name: "all else", Effect: Allow, Unless: []Match{tools}},
	}})
	if err != nil {
		panic(err) // impossible: the policy is valid
	}
	return compiled
}

func (c *Compiled) compileLists(p *Policy) (err error) {
	if c.base, err = newResolved("", RoleOverride{Allow: p.Allow, Deny: p.Deny}, nil); err != nil {
		return err
	}
	if err := checkCount("role_overrides", len(p.Roles), maxRoles); err != nil {
		return err
	}
	for _, role := range slices.Sorted(maps.Keys(p.Roles)) {
		path := fmt.Sprintf("role_overrides[%q]", role)
		if role == "" {
			return &CompileError{path, "expected the name of a role"}
		}
		override, base := p.Roles[role], c.base
		switch override.Mode {
		case modeReplace:
			base = nil
		case modeRestrict, "":
		default:
			return &CompileError{path + ".mode", fmt.Sprintf("expected restrict or replace, found %.60q", override.Mode)}
		}
		if c.roles[role], err = newResolved(path+".", override, base); err != nil {
			return err
		}
	}
	c.defaultRole = c.base
	if p.Strict {
		c.defaultRole, err = newResolved("", RoleOverride{Deny: []string{"*"}}, nil)
	}
	return err
}

// Resolve returns the lists that apply to a role. A role without an override, and "", get
// the lists of the policy, or lists that deny everything if the policy is strict.
func (c *Compiled) Resolve(role string) *Resolved {
	if r := c.roles[role]; r != nil {
		return r
	}
	return c.defaultRole
}

// A compiledRule is a compiled [Rule].
type compiledRule struct {
	position int // index in Policy.Rules
	match    compiledMatch
	unless   []compiledMatch
	decision Decision
}

func compileRule(position int, r *Rule) (c compiledRule, err error) {
	path := fmt.Sprintf("rules[%d]", position)
	if r.Effect > Allow {
		return c, &CompileError{path + ".effect", "expected allow, deny or ask"}
	}
	if err := checkCount(path+".unless", len(r.Unless), maxTerms); err != nil {
		return c, err
	}
	if err := cmp.Or(checkText(r.Name), checkText(r.Reason)); err != nil {
		return c, &CompileError{path, "the name or reason: " + err.Error()}
	}
	name := cmp.Or(r.Name, path)
	c = compiledRule{position: position, decision: Decision{
		Effect: r.Effect, Rule: name, Reason: fmt.Sprintf("the rule %q matches", name), UserMessage: r.Reason,
	}}
	if c.match, err = compileMatch(path, &r.Match); err != nil {
		return c, err
	}
	for i := range r.Unless {
		label := fmt.Sprintf("unless[%d]", i)
		exception, err := compileMatch(path+"."+label, &r.Unless[i])
		if err != nil {
			return c, err
		}
		exception.label = label
		c.unless = append(c.unless, exception)
	}
	return c, nil
}

// applies reports whether the rule decides about a request. If it is unknown whether the
// rule matches, it applies unless it allows.
func (r *compiledRule) applies(q *namedRequest, assumed tristate) bool {
	t, _ := r.holds(q, assumed)
	return t == yes || t == unknown && r.decision.Effect != Allow
}

// holds reports whether the rule matches, and if not, which part does not. For a listed
// request, assumed is the result of all predicates of arguments.
func (r *compiledRule) holds(q *namedRequest, assumed tristate) (t tristate, failed string) {
	t, failed = r.match.holds(q, assumed)
	for i := range r.unless {
		if t == no {
			break
		}
		exception, _ := r.unless[i].holds(q, assumed.not())
		if exception.not() < t {
			t, failed = exception.not(), r.unless[i].label
		}
	}
	return t, failed
}

// A CompileError reports an invalid policy.
type CompileError struct {
	// Path is the location of the error, such as rules[2].arguments[0].path.
	Path string
	// Message says what was expected.
	Message string
}

// Error returns the path and the message.
func (e *CompileError) Error() string { return "policy: " + e.Path + ": " + e.Message }

// compileGlobs compiles a list of at most limit patterns.
func compileGlobs(path string, patterns []string, limit int) (globs, error) {
	if err := checkCount(path, len(patterns), limit); err != nil {
		return nil, err
	}
	compiled := make(globs, len(patterns))
	for i, pattern := range patterns {
		if err := checkText(pattern); err != nil {
			return nil, &CompileError{fmt.Sprintf("%s[%d]", path, i), err.Error()}
		}
		compiled[i] = compileGlob(pattern)
		if canonical := uritemplate.Equivalent(pattern); canonical != pattern {
			compiled[i].ofURIs = new(compileGlob(canonical))
		}
	}
	return compiled, nil
}

// compileTerms is [compileGlobs] for a list in a rule. Such a list may be left out, but not
// be empty.
func compileTerms(path string, patterns []string) (globs, error) {
	if patterns != nil && len(patterns) == 0 {
		return nil, &CompileError{path, emptyList}
	}
	return compileGlobs(path, patterns, maxTerms)
}

const emptyList = "an empty list matches nothing: leave it out to match everything"

func checkCount(path string, count, limit int) error {
	if count > limit {
		return &CompileError{path, fmt.Sprintf("expected at most %d, found %d", limit, count)}
	}
	return nil
}

func checkText(text string) error {
	switch {
	case len(text) > maxPattern:
		return fmt.Errorf("expected at most %d bytes, found %d", maxPattern, len(text))
	case !utf8.ValidString(text):
		return errors.New("expected UTF-8")
	}
	return nil
}

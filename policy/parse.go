package policy

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Parse reads the JSON of a policy: an object with the members allow, deny,
// role_overrides, strict, rules and exempt, all of which may be left out. A member that is
// not known, or given twice, is an error, and so is what is longer than [MaxSize]. The
// error is a *[ParseError].
func Parse(data []byte) (*Policy, error) {
	p := new(Policy)
	if err := read(data, func(r *reader) error { return r.policy(p) }); err != nil {
		return nil, err
	}
	return p, nil
}

// UnmarshalJSON is [Parse].
func (p *Policy) UnmarshalJSON(data []byte) error {
	read, err := Parse(data)
	if err != nil {
		return err
	}
	*p = *read
	return nil
}

func parseLists(data []byte) (l lists, err error) {
	err = read(data, func(r *reader) error {
		return r.object(fields{"allow": arrayOf(r, &l.Allow, r.texts), "deny": r.texts(&l.Deny)})
	})
	return l, err
}

func (r *reader) policy(p *Policy) error {
	return r.object(fields{
		"allow":          r.texts(&p.Allow),
		"deny":           r.texts(&p.Deny),
		"role_overrides": r.overrides(&p.Roles),
		"strict":         r.bool(&p.Strict),
		"rules":          arrayOf(r, &p.Rules, r.rule),
		"exempt":         arrayOf(r, &p.Exempt, r.exemption),
	})
}

func (r *reader) overrides(into *map[string]RoleOverride) func() error {
	return func() error {
		*into = make(map[string]RoleOverride)
		return r.members(func(role string, _ int) error {
			var o RoleOverride
			err := r.object(fields{"allow": r.texts(&o.Allow), "deny": r.texts(&o.Deny), "mode": text(r, &o.Mode)})
			(*into)[role] = o
			return err
		})
	}
}

func (r *reader) exemption(into *Exemption) func() error {
	return func() error { return r.object(fields{"server": r.text(&into.Server), "tool": r.text(&into.Tool)}) }
}

func (r *reader) rule(into *Rule) func() error {
	return func() error {
		at, decides := r.start(), false
		known := r.match(&into.Match)
		known["name"] = r.text(&into.Name)
		known["reason"] = r.text(&into.Reason)
		known["effect"] = func() error {
			decides = true
			return r.effect(&into.Effect)
		}
		known["unless"] = arrayOf(r, &into.Unless, func(m *Match) func() error {
			return func() error { return r.object(r.match(m)) }
		})
		if err := r.object(known); err != nil {
			return err
		}
		if !decides {
			return r.at(at, "a rule has an effect: allow, deny or ask")
		}
		return nil
	}
}

func (r *reader) effect(into *Effect) error {
	at := r.start()
	raw, err := r.scan.String()
	if err != nil {
		return err
	}
	if err := into.UnmarshalText([]byte(jsonscan.Unquote(raw))); err != nil {
		return r.at(at, err.Error())
	}
	return nil
}

func (r *reader) kind(into *mcp.Kind) func() error {
	return func() error {
		at := r.start()
		raw, err := r.scan.String()
		if err != nil {
			return err
		}
		if name := jsonscan.Unquote(raw); into.UnmarshalText([]byte(name)) != nil {
			return r.at(at, fmt.Sprintf("expected tool, prompt, resource or resource template, found %.60q", name))
		}
		return nil
	}
}

func (r *reader) match(m *Match) fields {
	return fields{
		"kinds":      arrayOf(r, &m.Kinds, r.kind),
		"servers":    r.texts(&m.Servers),
		"names":      r.texts(&m.Names),
		"exposed":    r.texts(&m.Exposed),
		"tags":       r.texts(&m.Tags),
		"roles":      r.texts(&m.Roles),
		"principals": r.texts(&m.Principals),
		"arguments":  arrayOf(r, &m.Arguments, r.argument),
		"annotations": func() error {
			m.Annotations = new(Annotations)
			return r.annotations(m.Annotations)
		},
	}
}

func (r *reader) annotations(a *Annotations) error {
	return r.object(fields{
		"readOnlyHint":    r.optionalBool(&a.ReadOnly),
		"destructiveHint": r.optionalBool(&a.Destructive),
		"idempotentHint":  r.optionalBool(&a.Idempotent),
		"openWorldHint":   r.optionalBool(&a.OpenWorld),
	})
}

func (r *reader) argument(a *Argument) func() error {
	return func() error {
		at, placed := r.start(), false
		err := r.object(fields{
			"path": func() error {
				placed = true
				return r.text(&a.Path)()
			},
			"present": r.optionalBool(&a.Present),
			"equals":  r.raw(&a.Equals),
			"glob":    r.texts(&a.Glob),
			"prefix":  r.texts(&a.Prefix),
			"min":     r.number(&a.Min),
			"max":     r.number(&a.Max),
		})
		if err == nil && !placed {
			err = r.at(at, "a predicate has a path")
		}
		return err
	}
}

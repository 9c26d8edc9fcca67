package schema

import (
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// repair returns the instance with defaults in place of absent members, and
// with integers in plain digits where the schema names the type. An instance
// that is no sound JSON comes back as it is, for validation to refuse. The
// error is a [*BudgetError].
func repair(n *node, instance []byte, m meter) ([]byte, error) {
	r := repairer{meter: m, s: jsonscan.New(instance), in: instance, out: make([]byte, 0, len(instance)+64)}
	if err := r.value(n); err != nil {
		if _, ok := errors.AsType[*BudgetError](err); ok {
			return nil, err
		}
		return instance, nil
	}
	return append(r.out, r.in[r.copied:]...), nil
}

type repairer struct {
	meter
	added  int // bytes of defaults
	s      jsonscan.Scanner
	in     []byte
	copied int // up to where in is in out
	out    []byte
}

func (r *repairer) copyTo(end int) {
	r.out = append(r.out, r.in[r.copied:end]...)
	r.copied = end
}

func (r *repairer) value(n *node) error {
	if r.spend(valueCost); r.isEmpty() {
		return r.exceeded("")
	}
	if n == nil {
		_, err := r.s.Value()
		return err
	}
	switch r.s.Kind() {
	case jsonscan.Number:
		return r.number(n)
	case jsonscan.Array:
		return r.array(n)
	case jsonscan.Object:
		return r.object(n)
	}
	_, err := r.s.Value()
	return err
}

func (r *repairer) number(n *node) error {
	text, err := r.s.Number()
	if err != nil || isPlain(text) {
		return err
	}
	for ; n != nil; n = n.ref {
		if n.types&integerType == 0 {
			continue
		}
		if d, ok := parseDecimal(text); ok && d.isInteger() {
			r.copyTo(r.s.Offset() - len(text))
			r.out = d.appendInteger(r.out)
			r.copied = r.s.Offset()
		}
		return nil
	}
	return nil
}

func (r *repairer) array(n *node) error {
	for n.list == nil && n.ref != nil {
		n = n.ref
	}
	if n.list == nil {
		_, err := r.s.Value()
		return err
	}
	if err := r.s.EnterArray(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		ok, err := r.s.Element(i == 0)
		if err != nil || !ok {
			return err
		}
		item := n.list.items
		if i < len(n.list.prefix) {
			item = n.list.prefix[i]
		}
		if err := r.value(item); err != nil {
			return err
		}
	}
}

func (r *repairer) object(n *node) error {
	if err := r.s.EnterObject(); err != nil {
		return err
	}
	var keys [][]byte
	for {
		key, ok, err := r.s.Member(len(keys) == 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		keys = append(keys, key)
		if err := r.value(r.memberNode(n, key)); err != nil {
			return err
		}
	}
	r.copyTo(r.s.Offset() - 1)
	first := len(keys) == 0
	for ; n != nil; n = n.ref {
		if n.object == nil {
			continue
		}
		for i := range n.object.members {
			m := &n.object.members[i]
			if !m.hasDefault() {
				continue
			}
			if r.spend(valueCost * (1 + len(keys)/8)); r.isEmpty() {
				return r.exceeded("")
			}
			if contains(keys, m.name) {
				continue
			}
			fallback := m.node.defaultValue()
			if r.added += len(m.quoted) + len(fallback); r.added > maxDefaults {
				return &BudgetError{Reason: fmt.Sprintf("the defaults of the value have more than %d bytes", maxDefaults)}
			}
			if !first {
				r.out = append(r.out, ',')
			}
			first = false
			r.out = append(append(r.out, m.quoted...), ':')
			r.out = append(r.out, fallback...)
			keys = append(keys, m.quoted)
		}
	}
	return nil
}

// memberNode returns the schema of a member, looked for in n and what n refers
// to.
func (r *repairer) memberNode(n *node, key []byte) *node {
	for ; n != nil && !r.isEmpty(); n = n.ref {
		r.spend(valueCost)
		if n.object == nil {
			continue
		}
		if i := n.object.find(key); i >= 0 && n.object.members[i].declared {
			return n.object.members[i].node
		}
		for _, rule := range n.object.patterns {
			if r.spend(match(rule.pattern, len(key))); r.isEmpty() {
				return nil
			}
			if rule.pattern.Match(plain(key)) {
				return rule.node
			}
		}
		if n.object.additional != nil {
			return n.object.additional
		}
	}
	return nil
}

func contains(keys [][]byte, name string) bool {
	for _, key := range keys {
		if jsonscan.KeyIs(key, name) {
			return true
		}
	}
	return false
}

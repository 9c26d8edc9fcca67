package schema

import (
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func (w *walk) object(rules *objectRules) error {
	if rules == nil {
		rules = &anyObject
	}
	if err := w.s.EnterObject(); err != nil {
		return err
	}
	var seen bitset
	var others jsonscan.Keys
	count := 0
	for ; ; count++ {
		key, ok, err := w.s.Member(count == 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		w.at.push(step{key: w.s.KeyOffset()})
		if err := w.member(rules, key, &seen, &others); err != nil {
			return err
		}
		w.at.pop()
	}
	if err := w.missing(rules, &seen); err != nil {
		return err
	}
	return w.count("Properties", "member", count, rules.min, rules.max)
}

// member walks one member.
func (w *walk) member(rules *objectRules, key []byte, seen *bitset, others *jsonscan.Keys) error {
	i := rules.find(key)
	twice := i >= 0 && !seen.add(i)
	if i < 0 {
		w.spend(nameCost)
		var err error
		if twice, err = isTwice(others.Add(key, 0)); err != nil {
			return err
		}
	}
	if twice {
		if err := w.violated(Violation{Keyword: "duplicate", Expected: "one member"}); err != nil {
			return err
		}
	}
	start, known := w.s, false
	if i >= 0 && rules.members[i].declared {
		known = true
		if err := w.value(rules.members[i].node); err != nil {
			return err
		}
	}
	for _, rule := range rules.patterns {
		if w.spend(match(rule.pattern, len(key))); w.isEmpty() {
			return w.exceeded(w.at.pointer())
		}
		if !rule.pattern.Match(plain(key)) {
			continue
		}
		if err := w.rewind(start); err != nil {
			return err
		}
		known = true
		if err := w.value(rule.node); err != nil {
			return err
		}
	}
	if known {
		return nil
	}
	if rules.additional == nil || !rules.additional.never {
		return w.value(rules.additional)
	}
	if err := w.violated(Violation{Keyword: "additionalProperties", Expected: "a known member", Accepted: rules.accepted()}); err != nil {
		return err
	}
	return w.value(nil)
}

// missing looks for the members that did not come.
func (w *walk) missing(rules *objectRules, seen *bitset) error {
	w.spend(valueCost * len(rules.expected))
	for _, i := range rules.expected {
		m := &rules.members[i]
		switch {
		case seen.has(i):
			continue
		case w.decoding && m.hasDefault():
			w.rewrite = true
			continue
		case !m.required:
			continue
		}
		if err := w.violated(Violation{Keyword: "required", Expected: m.name, Accepted: rules.accepted()}); err != nil {
			return err
		}
	}
	return nil
}

func isTwice(err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	if _, ok := errors.AsType[*jsonscan.DuplicateError](err); ok {
		return true, nil
	}
	return false, err
}

func (m *member) hasDefault() bool { return m.node.defaultValue() != nil }

// A bitset is a set of small numbers that needs no memory of its own for the
// first 128.
type bitset struct {
	few  [2]uint64
	more []uint64
}

// add reports whether i was not in the set before.
func (b *bitset) add(i int) bool {
	word := b.word(i)
	bit := uint64(1) << (i % 64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

func (b *bitset) has(i int) bool { return *b.word(i)>>(i%64)&1 != 0 }

func (b *bitset) word(i int) *uint64 {
	if i < 128 {
		return &b.few[i/64]
	}
	for len(b.more) <= i/64-2 {
		b.more = append(b.more, 0)
	}
	return &b.more[i/64-2]
}

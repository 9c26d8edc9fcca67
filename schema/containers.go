package schema

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// container validates an object or an array. If it violates the keywords for all types its parts
// are still checked for number limits and duplicate members.
func (w *walker) container(n *node, t typeSet) error {
	if n.types != 0 && n.types&t == 0 || n.constant != nil || n.enum != nil {
		raw, err := w.peek()
		if err != nil {
			return err
		}
		ok, err := w.common(n, t, raw)
		if err != nil {
			return err
		}
		if !ok {
			n = &anything
		}
	}
	if t == arrayType {
		return w.array(n)
	}
	return w.object(n)
}

func (w *walker) array(n *node) error {
	start := w.s
	if err := w.s.EnterArray(); err != nil {
		return err
	}
	count := 0
	for ; ; count++ {
		ok, err := w.s.Element(count == 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		w.path.push(step{key: noKey, index: count})
		if err := w.value(n.item(count)); err != nil {
			return err
		}
		w.path.pop()
	}
	if n.uniqueItems && count > 1 {
		raw, err := start.Value()
		if err != nil {
			return err
		}
		if err := w.use(readCost*len(raw) + valueCost*count); err != nil {
			return err
		}
		if err := w.unique(raw, count); err != nil {
			return err
		}
	}
	return w.count("Items", "item", count, n.minItems, n.maxItems)
}

// item returns the schema of an item.
func (n *node) item(i int) *node {
	if i < len(n.prefixItems) {
		return n.prefixItems[i]
	}
	return n.items
}

// unique checks that all items differ. It keeps only a hash of each item: the items with equal hashes
// are compared afterwards.
func (w *walker) unique(raw []byte, count int) error {
	seed := maphash.MakeSeed()
	hash := func(item []byte) (form []byte, sum uint64, err error) {
		form = canonical(item, math.MaxInt, &w.meter)
		return form, maphash.Bytes(seed, form), w.use(0)
	}
	hashes := make([]uint64, 0, count)
	for _, item := range elements(raw) {
		_, sum, err := hash(item)
		if err != nil {
			return err
		}
		hashes = append(hashes, sum)
	}
	slices.Sort(hashes)
	equal := hashes[:0] // the hashes of several items
	for i, sum := range hashes {
		if i > 0 && sum == hashes[i-1] {
			equal = append(equal, sum)
		}
	}
	equal = slices.Compact(equal)
	seen := make([]bool, len(equal))
	for i, item := range elements(raw) {
		if len(equal) == 0 {
			break
		}
		form, sum, err := hash(item)
		if err != nil {
			return err
		}
		at, found := slices.BinarySearch(equal, sum)
		if !found {
			continue
		}
		if !seen[at] {
			seen[at] = true
			continue
		}
		for earlier, other := range elements(raw) { // another value can have the hash, in theory
			if earlier == i {
				break
			}
			if bytes.Equal(canonical(other, len(form), &w.meter), form) {
				return w.violated("uniqueItems", "items that all differ", fmt.Sprintf("equal items %d and %d", earlier, i))
			}
			if err := w.use(0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) object(n *node) error {
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
		w.path.push(step{key: w.s.KeyOffset()})
		if err := w.member(n, key, &seen, &others); err != nil {
			return err
		}
		w.path.pop()
	}
	if err := w.missing(n, &seen); err != nil {
		return err
	}
	return w.count("Properties", "member", count, n.minProperties, n.maxProperties)
}

// member validates one member of an object.
func (w *walker) member(n *node, key []byte, seen *bitset, others *jsonscan.Keys) error {
	i := n.find(key)
	duplicate := i >= 0 && !seen.add(i)
	if i < 0 {
		w.spend(nameCost)
		err := others.Add(key, 0)
		if _, duplicate = errors.AsType[*jsonscan.DuplicateError](err); err != nil && !duplicate {
			return err
		}
	}
	if duplicate {
		if err := w.violated("duplicate", "one member", ""); err != nil {
			return err
		}
	}
	start, known := w.s, false
	if i >= 0 && n.members[i].declared {
		known = true
		if err := w.value(n.members[i].node); err != nil {
			return err
		}
	}
	for _, p := range n.patternProperties {
		if err := w.use(matchCost(p.pattern, len(key))); err != nil {
			return err
		}
		if !p.pattern.Match(plain(key)) {
			continue
		}
		if err := w.rewind(start); err != nil {
			return err
		}
		known = true
		if err := w.value(p.node); err != nil {
			return err
		}
	}
	if known {
		return nil
	}
	if n.additionalProperties == nil || !n.additionalProperties.isFalse {
		return w.value(n.additionalProperties)
	}
	if err := w.record(Violation{Keyword: "additionalProperties", Expected: "a known member", Accepted: n.accepted()}); err != nil {
		return err
	}
	return w.value(nil)
}

// missing checks the members that the object does not have.
func (w *walker) missing(n *node, seen *bitset) error {
	w.spend(valueCost * len(n.expected))
	for _, i := range n.expected {
		m := &n.members[i]
		switch {
		case seen.has(i):
		case w.decoding && m.hasDefault():
			w.needsNormalize = true
		case m.required:
			if err := w.record(Violation{Keyword: "required", Expected: m.name, Accepted: n.accepted()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// A bitset is a set of small numbers. It allocates only for numbers from 128.
type bitset struct {
	first [2]uint64
	more  []uint64
}

// add adds i. It returns false if i was in the set.
func (b *bitset) add(i int) bool {
	word := b.word(i)
	bit := uint64(1) << (i % 64)
	added := *word&bit == 0
	*word |= bit
	return added
}

func (b *bitset) has(i int) bool { return *b.word(i)>>(i%64)&1 != 0 }

func (b *bitset) word(i int) *uint64 {
	if i < 128 {
		return &b.first[i/64]
	}
	for len(b.more) <= i/64-2 {
		b.more = append(b.more, 0)
	}
	return &b.more[i/64-2]
}

package schema

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
)

func (w *walk) array(rules *listRules) error {
	if rules == nil {
		rules = &anyList
	}
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
		item := rules.items
		if count < len(rules.prefix) {
			item = rules.prefix[count]
		}
		w.at.push(step{key: notKey, index: count})
		if err := w.value(item); err != nil {
			return err
		}
		w.at.pop()
	}
	if rules.unique && count > 1 {
		raw, err := start.Value()
		if err != nil {
			return err
		}
		// The items are read, hashed and sorted.
		if w.spend(4*len(raw) + valueCost*count); w.isEmpty() {
			return w.exceeded(w.at.pointer())
		}
		if err := w.unique(raw, count); err != nil {
			return err
		}
	}
	return w.count("Items", "item", count, rules.minItems, rules.maxItems)
}

// count checks how many of something there are.
func (w *walk) count(suffix, noun string, n, minimum, maximum int) error {
	if minimum != unlimited && n < minimum {
		if err := w.violated(Violation{Keyword: "min" + suffix, Expected: "at least " + plural(minimum, noun), Got: plural(n, noun)}); err != nil {
			return err
		}
	}
	if maximum != unlimited && n > maximum {
		return w.violated(Violation{Keyword: "max" + suffix, Expected: "at most " + plural(maximum, noun), Got: plural(n, noun)})
	}
	return nil
}

// unique looks for items that are equal: only those of one hash are compared,
// so that the work grows little faster than the array.
func (w *walk) unique(raw []byte, count int) error {
	type item struct {
		hash  uint64
		index int
		raw   []byte
	}
	items := make([]item, 0, count)
	hashes := hasher{maphash.MakeSeed()}
	for i, raw := range elements(raw) {
		items = append(items, item{hashes.hash(raw), i, raw})
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.index, b.index))
	})
	for i := range items {
		for j := i + 1; j < len(items) && items[j].hash == items[i].hash; j++ {
			if equal(items[i].raw, items[j].raw, &w.meter) {
				return w.violated(Violation{
					Keyword: "uniqueItems", Expected: "items that all differ",
					Got: fmt.Sprintf("equal items %d and %d", items[i].index, items[j].index),
				})
			}
		}
	}
	return nil
}

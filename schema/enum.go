package schema

import (
	"hash/maphash"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An enum is the values that a schema allows.
type enum struct {
	values [][]byte
	few    bool             // few and short: compared one by one
	byHash map[uint64][]int // places in values
	hasher hasher
}

// fewValues is up to how many values are compared one by one.
const fewValues = 8

func newEnum(values ...[]byte) *enum {
	e := &enum{values: values, byHash: make(map[uint64][]int, len(values)), hasher: hasher{maphash.MakeSeed()}}
	e.few = len(values) <= fewValues
	for i, value := range values {
		e.few = e.few && isShort(value)
		hash := e.hasher.hash(value)
		e.byHash[hash] = append(e.byHash[hash], i)
	}
	return e
}

// has reports whether raw is one of the values. However many and large these
// are, the work depends on raw alone.
func (e *enum) has(raw []byte, m *meter) bool {
	if e.few && isShort(raw) {
		for _, value := range e.values {
			if equal(value, raw, m) {
				return true
			}
		}
		return false
	}
	m.spend(2 * len(raw))
	for _, i := range e.byHash[e.hasher.hash(raw)] {
		if equal(e.values[i], raw, m) {
			return true
		}
	}
	return false
}

// isShort reports whether a value is quickly compared.
func isShort(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.Array, jsonscan.Object:
		return false
	}
	return len(raw) <= maxQuoted
}

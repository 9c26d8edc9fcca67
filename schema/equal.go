package schema

import (
	"bytes"
	"hash/maphash"
	"iter"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// equal reports whether two JSON texts are the same value: numbers by their
// mathematical value, objects whatever the order of their members. Both have
// been scanned before. When the meter is empty the result is false, and of no
// meaning.
func equal(a, b []byte, m *meter) bool {
	kind := jsonscan.KindOf(a)
	if kind != jsonscan.KindOf(b) {
		return false
	}
	// Arrays and objects are read again at each of their levels.
	if m.spend(len(a) + len(b)); m.isEmpty() {
		return false
	}
	switch kind {
	case jsonscan.Number:
		x, okX := parseDecimal(bytes.TrimSpace(a))
		y, okY := parseDecimal(bytes.TrimSpace(b))
		return okX && okY && x.compare(&y) == 0
	case jsonscan.String:
		return bytes.Equal(plain(a), plain(b))
	case jsonscan.Array:
		return equalArrays(a, b, m)
	case jsonscan.Object:
		return equalObjects(a, b, m)
	}
	return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
}

// plain returns the text of a raw string, without allocating when it has no
// escapes.
func plain(raw []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return jsonscan.AppendUnquoted(nil, raw)
}

func equalArrays(a, b []byte, m *meter) bool {
	x, y := jsonscan.New(a), jsonscan.New(b)
	_, _ = x.EnterArray(), y.EnterArray()
	for first := true; ; first = false {
		moreX, _ := x.Element(first)
		moreY, _ := y.Element(first)
		if !moreX || !moreY {
			return moreX == moreY
		}
		itemX, _ := x.Value()
		itemY, _ := y.Value()
		if !equal(itemX, itemY, m) {
			return false
		}
	}
}

func equalObjects(a, b []byte, m *meter) bool {
	x, errX := jsonscan.ReadObject(a)
	y, errY := jsonscan.ReadObject(b)
	if errX != nil || errY != nil || x.Len() != y.Len() {
		return false
	}
	values := make(map[string][]byte, y.Len())
	for member := range y.All() {
		values[string(plain(member.Key))] = member.Value
	}
	for member := range x.All() {
		other, ok := values[string(plain(member.Key))]
		if !ok || !equal(member.Value, other, m) {
			return false
		}
	}
	return true
}

// A hasher gives equal JSON values equal hashes, which nobody outside can
// foresee.
type hasher struct{ seed maphash.Seed }

func (h hasher) hash(raw []byte) uint64 {
	scanner := jsonscan.New(raw)
	return h.next(&scanner)
}

// next hashes one value that has been scanned before.
func (h hasher) next(s *jsonscan.Scanner) uint64 {
	const mix = 0x9E3779B97F4A7C15
	sum := uint64(0)
	switch kind := s.Kind(); kind {
	case jsonscan.Array:
		_ = s.EnterArray()
		for first := true; ; first = false {
			if more, _ := s.Element(first); !more {
				return sum*mix + uint64(kind)
			}
			sum = sum*mix + h.next(s)
		}
	case jsonscan.Object:
		_ = s.EnterObject()
		for first := true; ; first = false {
			key, more, _ := s.Member(first)
			if !more {
				return sum*mix + uint64(kind)
			}
			name := maphash.Bytes(h.seed, plain(key))
			sum += (name ^ h.next(s)*mix) * mix // in any order
		}
	case jsonscan.String:
		text, _ := s.Value()
		return maphash.Bytes(h.seed, plain(text))
	case jsonscan.Number:
		text, _ := s.Value()
		return h.number(text)
	default:
		text, _ := s.Value()
		return maphash.Bytes(h.seed, text) + uint64(kind)
	}
}

func (h hasher) number(text []byte) uint64 {
	d, _ := parseDecimal(text)
	var hash maphash.Hash
	hash.SetSeed(h.seed)
	for i := range d.digits() {
		_ = hash.WriteByte(d.digit(i))
	}
	sum := hash.Sum64() + uint64(d.point)
	if d.negative {
		return ^sum
	}
	return sum
}

// elements yields the items of an array that has been scanned before.
func elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		s := jsonscan.New(array)
		_ = s.EnterArray()
		for i := 0; ; i++ {
			if more, _ := s.Element(i == 0); !more {
				return
			}
			if item, _ := s.Value(); !yield(i, item) {
				return
			}
		}
	}
}

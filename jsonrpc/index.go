package jsonrpc

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// indexedLevels is how deep members are recorded: those of params or result,
// and those of the objects among them.
const indexedLevels = 2

// An index tells where the members of an object lie on its first levels, so
// that nobody has to scan it again. A member is followed by the members of its
// value; which they are is told by the offsets.
type index struct {
	text []byte // the object
	more []span
	n    uint32
	few  [11]span // as many as there is room for in the memory that a message takes
}

// A span is a member: offsets of its raw key and value in the text.
type span struct{ key, value, end uint32 }

func (x *index) reset() { x.text, x.n, x.more = nil, 0, x.more[:0] }

// add records a key and returns the member's place.
func (x *index) add(key int) int {
	i := int(x.n)
	x.n++
	if s := (span{key: uint32(key)}); i < len(x.few) {
		x.few[i] = s
	} else {
		x.more = append(x.more, s)
	}
	return i
}

func (x *index) setValue(i, end, size int) {
	s := x.at(i)
	s.value, s.end = uint32(end-size), uint32(end)
}

func (x *index) at(i int) *span {
	if i < len(x.few) {
		return &x.few[i]
	}
	return &x.more[i-len(x.few)]
}

// key is the raw key of a member: what stands before its value, but for the colon and
// white space.
func (x *index) key(s *span) []byte {
	end := int(s.value)
	for x.text[end-1] != '"' {
		end--
	}
	return x.text[s.key:end:end]
}

// find returns the value in text that a path of one or two names leads to. An
// index speaks for its own object only: any other, such as params that have
// been replaced since, is scanned.
func (x *index) find(text []byte, path []string) json.RawMessage {
	if len(path) < 1 || len(path) > indexedLevels {
		return nil
	}
	if !x.covers(text) {
		for _, name := range path {
			text = scanFor(text, name)
		}
		return text
	}
	var found *span
	from, to := 0, int(x.n)
	for _, name := range path {
		i := x.sibling(from, to, name)
		if i < 0 {
			return nil
		}
		found = x.at(i)
		from, to = i+1, x.after(i)
	}
	return x.text[found.value:found.end:found.end]
}

// keys yields the keys of the object that a path of at most one name leads to.
func (x *index) keys(text []byte, path []string, yield func([]byte) bool) {
	if !x.covers(text) || len(path) >= indexedLevels {
		if len(path) > 0 {
			text = x.find(text, path)
		}
		scanKeys(text, yield)
		return
	}
	from, to := 0, int(x.n)
	if len(path) == 1 {
		i := x.sibling(from, to, path[0])
		if i < 0 {
			return
		}
		from, to = i+1, x.after(i)
	}
	for i := from; i < to; i = x.after(i) {
		if s := x.at(i); !yield(x.key(s)) {
			return
		}
	}
}

// scanKeys is keys for a text without an index.
func scanKeys(text []byte, yield func([]byte) bool) {
	s := jsonscan.New(text)
	if s.EnterObject() != nil {
		return
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil || !ok || !yield(key) {
			return
		}
		if _, err := s.Value(); err != nil {
			return
		}
	}
}

// covers tells whether text is the object of the index: the same bytes in the
// same place.
func (x *index) covers(text []byte) bool {
	return len(text) > 0 && len(text) == len(x.text) && &text[0] == &x.text[0]
}

// sibling returns the place of the member with that name among the members from
// one place to another, -1 when there is none.
func (x *index) sibling(from, to int, name string) int {
	for i := from; i < to; i = x.after(i) {
		if s := x.at(i); jsonscan.KeyIs(x.key(s), name) {
			return i
		}
	}
	return -1
}

// after returns the place of the first member that does not lie in the value of
// the one at i.
func (x *index) after(i int) int {
	end := x.at(i).end
	for i++; i < int(x.n) && x.at(i).key < end; i++ {
	}
	return i
}

// scanFor returns the value of a member of a text without an index, nil when
// there is none or the text up to there is no object.
func scanFor(text []byte, name string) []byte {
	s := jsonscan.New(text)
	if s.EnterObject() != nil {
		return nil
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil || !ok {
			return nil
		}
		value, err := s.Value()
		if err != nil {
			return nil
		}
		if jsonscan.KeyIs(key, name) {
			return value
		}
	}
}

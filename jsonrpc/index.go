package jsonrpc

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// indexedLevels is the number of levels on which members are recorded: the members of params
// or result, and the members of the objects in them.
const indexedLevels = 2

// An index has the offsets of the members of an object on its first levels, so that lookups
// need no second scan. Each member is followed by the members of its value, which lie between
// its value and end offsets.
type index struct {
	text []byte // the object
	more []span
	n    uint32   // the number of members, and ambiguousArguments
	few  [11]span // fills the size class in which a Request is allocated
}

// ambiguousArguments is the bit of index.n that says that the member arguments has an object with a
// duplicate member. A message of less than 4 GiB has fewer members than that.
const ambiguousArguments = 1 << 31

// A span is a member: the offsets of its raw key and value in the text.
type span struct{ key, value, end uint32 }

func (x *index) reset() { x.text, x.n, x.more = nil, 0, x.more[:0] }

// add records a key and returns the index of the member.
func (x *index) add(key int) int {
	i := x.len()
	x.n++
	if s := (span{key: uint32(key)}); i < len(x.few) {
		x.few[i] = s
	} else {
		x.more = append(x.more, s)
	}
	return i
}

// len returns the number of members.
func (x *index) len() int { return int(x.n &^ ambiguousArguments) }

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

// key returns the raw key of a member. Between it and the value are a colon and white space.
func (x *index) key(s *span) []byte {
	end := int(s.value)
	for x.text[end-1] != '"' {
		end--
	}
	return x.text[s.key:end:end]
}

// find returns the value in text at a path of one or two names, nil for null. It scans a text that is
// not the object of the index, such as replaced params.
func (x *index) find(text []byte, path []string) json.RawMessage {
	value := x.lookup(text, path)
	if jsonscan.KindOf(value) == jsonscan.Null {
		return nil
	}
	return value
}

// lookup is find, and returns null as it is.
func (x *index) lookup(text []byte, path []string) json.RawMessage {
	if len(path) < 1 || len(path) > indexedLevels {
		return nil
	}
	if !x.covers(text) {
		for _, name := range path {
			text, _ = jsonscan.Find(text, name) // a text that is not an object has no members
		}
		return text
	}
	var found *span
	from, to := 0, x.len()
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

// keys yields the keys of the object at a path of at most one name.
func (x *index) keys(text []byte, path []string, yield func([]byte) bool) {
	if !x.covers(text) || len(path) >= indexedLevels {
		if len(path) > 0 {
			text = x.lookup(text, path)
		}
		scanKeys(text, yield)
		return
	}
	from, to := 0, x.len()
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

// covers reports whether text is the object of the index: the same slice.
func (x *index) covers(text []byte) bool {
	return len(text) > 0 && len(text) == len(x.text) && &text[0] == &x.text[0]
}

// sibling returns the index of the member with a name, among the members of one object that
// are from index from to index to. It returns -1 if there is none.
func (x *index) sibling(from, to int, name string) int {
	for i := from; i < to; i = x.after(i) {
		if s := x.at(i); jsonscan.KeyIs(x.key(s), name) {
			return i
		}
	}
	return -1
}

// after returns the index of the first member that is not in the value of member i.
func (x *index) after(i int) int {
	end := x.at(i).end
	for i++; i < x.len() && x.at(i).key < end; i++ {
	}
	return i
}

package jsonscan

import (
	"bytes"
	"hash/maphash"
	"iter"
)

// A Member is a member of an object.
type Member struct {
	Key   []byte // raw
	Value []byte // raw
}

// Name returns the member's name without quotes and escapes.
func (m Member) Name() string { return Unquote(m.Key) }

// Members are the members of one object in their order. Their slices refer to the text that
// was read. A lookup takes time linear in the number of members.
type Members struct {
	n    int
	few  [16]Member
	more []Member
}

// ReadObject reads a text that is one object. The error is a *[SyntaxError], a
// *[DuplicateError] or a *[SizeError]; then there are no members. Objects inside are checked
// for their syntax only.
func ReadObject(data []byte) (Members, error) {
	var m Members
	if err := m.read(data); err != nil {
		return Members{}, err
	}
	return m, nil
}

// Find returns the raw value of a member of an object, nil if the object has none. It does
// not look for duplicates, and does not check what follows the member. The error is a
// *[SyntaxError].
func Find(object []byte, name string) ([]byte, error) {
	s := New(object)
	if err := s.EnterObject(); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil || !ok {
			return nil, err
		}
		value, err := s.Value()
		if err != nil {
			return nil, err
		}
		if KeyIs(key, name) {
			return value, nil
		}
	}
}

func (m *Members) read(data []byte) error {
	s := New(data)
	if err := s.EnterObject(); err != nil {
		return err
	}
	var keys Keys
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			return s.End()
		}
		if err := keys.Add(key, s.KeyOffset()); err != nil {
			return err
		}
		value, err := s.Value()
		if err != nil {
			return err
		}
		m.add(Member{Key: key, Value: value})
	}
}

func (m *Members) add(member Member) {
	if m.n < len(m.few) {
		m.few[m.n] = member
	} else {
		m.more = append(m.more, member)
	}
	m.n++
}

// Get returns the raw value of a member, nil if there is none.
func (m *Members) Get(name string) []byte {
	for member := range m.All() {
		if KeyIs(member.Key, name) {
			return member.Value
		}
	}
	return nil
}

// Len returns the number of members.
func (m *Members) Len() int { return m.n }

// All iterates over the members in their order.
func (m *Members) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, member := range m.few[:min(m.n, len(m.few))] {
			if !yield(member) {
				return
			}
		}
		for _, member := range m.more {
			if !yield(member) {
				return
			}
		}
	}
}

// Keys finds duplicates among the names of one object, in time linear in the size of the
// object. The zero value is ready for use.
type Keys struct {
	n      int
	filter uint64 // has a bit for the fingerprint of each name
	few    [16][]byte
	more   [][]byte
	many   map[uint64][]byte // all names by their hash; nil up to maxListed names
	seed   maphash.Seed
}

// maxListed is up to how many names a list is searched instead of a map.
const maxListed = 64

// Reset removes all names.
func (k *Keys) Reset() {
	k.n, k.filter, k.more, k.many = 0, 0, k.more[:0], nil
}

// Add adds a raw key, which must have been scanned; offset is its first byte. The error is a
// *[DuplicateError] if the name was added before or contains NUL, and a *[SizeError] if there
// are too many names. The key must not change until the last call or Reset.
func (k *Keys) Add(key []byte, offset int) error {
	if k.n == MaxMembers {
		return &SizeError{Offset: offset}
	}
	escaped := bytes.IndexByte(key, '\\') >= 0
	if escaped {
		// Escapes are rare in names. They are removed, so that names compare as bytes.
		name := AppendUnquoted([]byte{'"'}, key)
		if bytes.IndexByte(name, 0) >= 0 {
			return &DuplicateError{Offset: offset, Key: string(name[1:])}
		}
		key = append(name, '"')
	}
	bit := uint64(1) << (fingerprint(key) % 64)
	if k.filter&bit != 0 && k.has(key) {
		return &DuplicateError{Offset: offset, Key: string(inner(key))}
	}
	k.filter |= bit
	k.insert(key)
	return nil
}

func (k *Keys) insert(key []byte) {
	switch {
	case k.n < len(k.few):
		k.few[k.n] = key
	case k.n < maxListed:
		k.more = append(k.more, key)
	default:
		if k.many == nil {
			k.index()
		}
		k.many[k.slot(key)] = key
	}
	k.n++
}

// index fills the map.
func (k *Keys) index() {
	k.many = make(map[uint64][]byte, 2*maxListed)
	k.seed = maphash.MakeSeed()
	for _, key := range k.few {
		k.many[k.slot(key)] = key
	}
	for _, key := range k.more {
		k.many[k.slot(key)] = key
	}
}

// slot returns the index of a key in the map: its hash or, if another key has that, the next
// free number.
func (k *Keys) slot(key []byte) uint64 {
	for hash := maphash.Bytes(k.seed, key); ; hash++ {
		if other, taken := k.many[hash]; !taken || bytes.Equal(other, key) {
			return hash
		}
	}
}

func (k *Keys) has(key []byte) bool {
	if k.many != nil {
		_, ok := k.many[k.slot(key)]
		return ok
	}
	for _, earlier := range k.few[:min(k.n, len(k.few))] {
		if bytes.Equal(earlier, key) {
			return true
		}
	}
	for _, earlier := range k.more {
		if bytes.Equal(earlier, key) {
			return true
		}
	}
	return false
}

// fingerprint is a cheap hash of a name: its length, a byte from the middle and the last byte.
func fingerprint(key []byte) uint {
	n := len(key)
	return uint(n)*7 + uint(key[n/2])*3 + uint(key[max(n-2, 0)])
}

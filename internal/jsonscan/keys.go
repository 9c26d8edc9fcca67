package jsonscan

import (
	"bytes"
	"hash/maphash"
)

// Keys are the names of the members of one object, as they come. They tell
// which name comes twice, in time linear in the size of the object. The zero
// value is ready.
type Keys struct {
	n      int
	filter uint64 // a bit for each fingerprint of a name so far
	few    [16][]byte
	more   [][]byte
	many   map[uint64][]byte // all names by their hash, once there are more than maxListed
	seed   maphash.Seed
}

// maxListed is up to how many names a list is searched rather than a map.
const maxListed = 64

// Reset forgets all names.
func (k *Keys) Reset() {
	k.n, k.filter, k.more, k.many = 0, 0, k.more[:0], nil
}

// Add takes the next raw key, with quotes, that has been scanned; offset is
// where it begins. The error is a *[DuplicateError] when the name has come
// before or contains NUL, a *[SizeError] when it is one name too many. The keys
// must stay unchanged until the last call.
func (k *Keys) Add(key []byte, offset int) error {
	if k.n == MaxMembers {
		return &SizeError{Offset: offset}
	}
	escaped := bytes.IndexByte(key, '\\') >= 0
	if escaped {
		// Rare, and so made plain: from here on all names are compared
		// without their escapes.
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
		k.many[k.place(key)] = key
	}
	k.n++
}

// index moves from the list to the map.
func (k *Keys) index() {
	k.many = make(map[uint64][]byte, 2*maxListed)
	k.seed = maphash.MakeSeed()
	for _, key := range k.few {
		k.many[k.place(key)] = key
	}
	for _, key := range k.more {
		k.many[k.place(key)] = key
	}
}

// place returns where a key is in the map, or would be: at its hash or, should
// another key have the same, at the next free number.
func (k *Keys) place(key []byte) uint64 {
	for hash := maphash.Bytes(k.seed, key); ; hash++ {
		if other, taken := k.many[hash]; !taken || bytes.Equal(other, key) {
			return hash
		}
	}
}

func (k *Keys) has(key []byte) bool {
	if k.many != nil {
		_, ok := k.many[k.place(key)]
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

// fingerprint is a cheap hash that tells the names of one object apart mostly:
// their length with a byte from the middle and the last.
func fingerprint(key []byte) uint {
	n := len(key)
	return uint(n)*7 + uint(key[n/2])*3 + uint(key[max(n-2, 0)])
}

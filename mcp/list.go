package mcp

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A listed is what lists have many of, and so is decoded by hand.
type listed[T any] interface {
	*T
	// field points to the field of a member, to Extra for one that has none.
	field(name []byte) any
}

// maxAhead bounds for how many more entries room is made at once: the first ones of a
// list say little of how many there will be.
const maxAhead = 1024

// decodeList decodes a page of a list: the entries, which are the value of member,
// into list, and what else there is by the tags of page.
//
// Only what is right is read by hand. Anything else is left to decode, which takes
// the same texts, and knows what to say about one that is wrong.
func decodeList[T any, P listed[T]](data []byte, member string, list *[]T, page any) error {
	entries, rest, ok := readList[T, P](data, member)
	if !ok || decode(rest, page) != nil {
		return decode(data, page)
	}
	*list = entries
	return nil
}

// readList reads the entries of a page. rest is the page with none of them.
func readList[T any, P listed[T]](data []byte, member string) (entries []T, rest []byte, ok bool) {
	s := jsonscan.NewUnique(data)
	if s.EnterObject() != nil {
		return nil, nil, false
	}
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		switch {
		case err != nil:
			return nil, nil, false
		case !more:
			return entries, rest, rest != nil // and whether it ends well is seen when it is decoded
		case !jsonscan.KeyIs(key, member):
			if _, err := s.Value(); err != nil {
				return nil, nil, false
			}
			continue
		}
		start := s.Offset()
		if entries, ok = readEntries[T, P](&s, len(data)); !ok {
			return nil, nil, false
		}
		rest = slices.Concat(data[:start], []byte("[]"), data[s.Offset():])
	}
}

// readEntries reads an array. size is that of the whole text.
func readEntries[T any, P listed[T]](s *jsonscan.Scanner, size int) ([]T, bool) {
	if s.EnterArray() != nil {
		return nil, false
	}
	entries := []T{}
	var kept copies
	start := s.Offset()
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil {
			return nil, false
		}
		if !more {
			return entries, true
		}
		kept.left = size - s.Offset()
		if n := len(entries); n > 0 && n == cap(entries) {
			average := (s.Offset() - start) / n
			entries = slices.Grow(entries, min(1+(size-s.Offset())/average, maxAhead))
		}
		entries = append(entries, *new(T))
		if !readEntry(s, P(&entries[len(entries)-1]), &kept) {
			return nil, false
		}
	}
}

func readEntry[T any, P listed[T]](s *jsonscan.Scanner, entry P, kept *copies) bool {
	if s.EnterObject() != nil {
		return false
	}
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		if err != nil {
			return false
		}
		if !more {
			return true
		}
		if bytes.IndexByte(key, '\\') >= 0 {
			return false // nobody escapes names
		}
		if !readField(s, key, entry.field(key[1:len(key)-1]), kept) {
			return false
		}
	}
}

// readField reads the value of a member into its field. What is kept is copied, so
// that an entry does not hold on to the text of all; see [copies].
func readField(s *jsonscan.Scanner, key []byte, field any, kept *copies) bool {
	kind := s.Kind()
	value, err := s.Value()
	if err != nil {
		return false
	}
	switch field := field.(type) {
	case *string:
		if kind == jsonscan.String {
			*field = kept.unquote(value)
		}
		return kind == jsonscan.String || kind == jsonscan.Null
	case *json.RawMessage:
		*field = kept.clone(value)
		return true
	case *Extra:
		*field = appendMember(*field, key, value)
		return true
	case json.Unmarshaler:
		return field.UnmarshalJSON(value) == nil
	}
	return decode(value, field) == nil
}

// appendMember adds a member to an object, nil being an empty one.
func appendMember(object, key, value []byte) []byte {
	if object == nil {
		object = []byte{'{'}
	} else {
		object[len(object)-1] = ','
	}
	return append(append(append(append(object, key...), ':'), value...), '}')
}

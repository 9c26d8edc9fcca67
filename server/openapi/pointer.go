package openapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A source is a JSON text in which values are found by JSON Pointer (RFC 6901).
// References on the way are followed.
type source struct {
	root    json.RawMessage
	objects map[string]jsonscan.Members // those that were read, by pointer
}

func newSource(text json.RawMessage) *source {
	return &source{root: text, objects: make(map[string]jsonscan.Members)}
}

// at finds a value by the names that lead to it.
func (s *source) at(names ...string) (json.RawMessage, error) {
	var pointer strings.Builder
	for _, name := range names {
		pointer.WriteByte('/')
		pointer.WriteString(escapeToken(name))
	}
	_, value, err := s.find(pointer.String())
	return value, err
}

// find returns the value that a pointer leads to, and the pointer that leads there
// without a reference on the way. The value itself may be a reference.
func (s *source) find(pointer string) (place string, value json.RawMessage, err error) {
	value = s.root
	for hops, rest := 0, pointer; rest != ""; {
		if len(rest) > maxPointer || rest[0] != '/' {
			return "", nil, fmt.Errorf("%s is no JSON Pointer, which begins with / and has at most %d bytes", jsonscan.Quote(pointer), maxPointer)
		}
		token, _, _ := strings.Cut(rest[1:], "/")
		child, err := s.child(place, value, token)
		if err != nil {
			return "", nil, err
		}
		if child != nil {
			place, value, rest = place+"/"+token, child, rest[1+len(token):]
			continue
		}
		target, ok, err := s.reference(place, value)
		switch {
		case err != nil:
			return "", nil, err
		case !ok:
			return "", nil, fmt.Errorf("the document has nothing at #%s", jsonscan.Quote(pointer))
		}
		if hops++; hops > maxReferences {
			return "", nil, fmt.Errorf("the references from #%s run in a circle", jsonscan.Quote(pointer))
		}
		place, value, rest = "", s.root, target+rest
	}
	return place, value, nil
}

// child returns a member or element of a value, nil if there is none.
func (s *source) child(place string, value json.RawMessage, token string) (json.RawMessage, error) {
	switch jsonscan.KindOf(value) {
	case jsonscan.Object:
		members, err := s.members(place, value)
		return members.Get(unescapeToken(token)), err
	case jsonscan.Array:
		index, err := strconv.ParseUint(token, 10, 32)
		if err != nil {
			return nil, nil
		}
		return element(value, index)
	}
	return nil, nil
}

func element(array json.RawMessage, index uint64) (json.RawMessage, error) {
	scan := jsonscan.New(array)
	if err := scan.EnterArray(); err != nil {
		return nil, err
	}
	for i := uint64(0); ; i++ {
		if more, err := scan.Element(i == 0); err != nil || !more {
			return nil, err
		}
		value, err := scan.Value()
		if err != nil || i == index {
			return value, err
		}
	}
}

func (s *source) members(place string, object json.RawMessage) (jsonscan.Members, error) {
	if members, ok := s.objects[place]; ok {
		return members, nil
	}
	members, err := jsonscan.ReadObject(object)
	if err == nil {
		s.objects[place] = members
	}
	return members, err
}

// reference returns the pointer that a value refers to; ok is false if it is no
// reference.
func (s *source) reference(place string, value json.RawMessage) (pointer string, ok bool, err error) {
	if jsonscan.KindOf(value) != jsonscan.Object {
		return "", false, nil
	}
	members, err := s.members(place, value)
	if err != nil {
		return "", false, err
	}
	ref, ok := asString(members.Get("$ref"))
	if !ok {
		return "", false, nil
	}
	pointer, err = pointerOf(ref)
	return pointer, err == nil, err
}

// follow goes from a schema that is nothing but a reference to what it refers to.
func (s *source) follow(value json.RawMessage) (json.RawMessage, error) {
	for range maxReferences {
		if jsonscan.KindOf(value) != jsonscan.Object {
			return value, nil
		}
		members, err := jsonscan.ReadObject(value)
		if err != nil {
			return nil, err
		}
		ref, ok := asString(members.Get("$ref"))
		if !ok {
			return value, nil
		}
		pointer, err := pointerOf(ref)
		if err != nil {
			return nil, err
		}
		if _, value, err = s.find(pointer); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the references from %.256s run in a circle", value)
}

// pointerOf returns the JSON Pointer of a reference within the document.
func pointerOf(ref string) (string, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", fmt.Errorf("the reference %s leaves the document; other documents are never fetched", jsonscan.Quote(ref))
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return "", fmt.Errorf("the reference %s has no JSON Pointer, such as #/components/schemas/Pet", jsonscan.Quote(ref))
	}
	return pointer, nil
}

func escapeToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// asString returns the string that a raw value is.
func asString(raw json.RawMessage) (string, bool) {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", false
	}
	return jsonscan.Unquote(raw), true
}

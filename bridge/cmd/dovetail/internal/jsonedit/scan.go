package jsonedit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

var bom = []byte("\uFEFF")

// A node is a value of the text.
type node struct {
	start, end int
	kind       byte // its first byte
	members    []*member
}

// A member is a member of an object. start is the offset of its key, comma that of the comma after
// it, or 0.
type member struct {
	name         string
	start, comma int
	value        *node
}

// index returns the index of the member with a name, or -1. A repeated one is an error, since readers
// differ in which they use.
func (n *node) index(name string) (int, error) {
	hasName := func(m *member) bool { return m.name == name }
	at := slices.IndexFunc(n.members, hasName)
	if at >= 0 && slices.ContainsFunc(n.members[at+1:], hasName) {
		return 0, fmt.Errorf("the member %q is repeated: change the file by hand", name)
	}
	return at, nil
}

// A document is a parsed text.
type document struct {
	text  []byte
	plain []byte // with spaces for comments and trailing commas
	root  *node
}

func scan(text []byte) (*document, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the file is longer than %d bytes", MaxText)
	}
	if isTooDeep(text) {
		return nil, errors.New("the file has too many nested values")
	}
	buf := bytes.Clone(text)
	if bytes.HasPrefix(buf, bom) {
		copy(buf, "   ")
	}
	// The library expects a line break after a comment at the end of the file.
	value, err := hujson.Parse(append(buf, '\n'))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	d := &document{text: text, root: newNode(&value)}
	value.Standardize()
	d.plain = value.Pack()
	return d, nil
}

func newNode(v *hujson.Value) *node {
	n := &node{start: v.StartOffset, end: v.EndOffset, kind: byte(v.Value.Kind())}
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return n
	}
	for i := range object.Members {
		name, value := object.Members[i].Name, &object.Members[i].Value
		m := &member{name: name.Value.(hujson.Literal).String(), start: name.StartOffset, value: newNode(value)}
		if i < len(object.Members)-1 || value.AfterExtra != nil {
			m.comma = value.EndOffset + len(value.AfterExtra)
		}
		n.members = append(n.members, m)
	}
	return n
}

// isTooDeep reports whether a text has more than maxDepth nested values. The library is recursive
// without a limit.
func isTooDeep(text []byte) bool {
	depth := 0
	for at := 0; at < len(text); at++ {
		rest := text[at:]
		switch {
		case rest[0] == '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			at += len(line)
		case bytes.HasPrefix(rest, []byte("/*")):
			comment, _, _ := bytes.Cut(rest[2:], []byte("*/"))
			at += 2 + len(comment) + 1
		case rest[0] == '{' || rest[0] == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case rest[0] == '}' || rest[0] == ']':
			depth--
		}
	}
	return false
}

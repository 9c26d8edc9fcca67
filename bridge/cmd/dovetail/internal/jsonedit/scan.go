package jsonedit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// A document is a scanned text.
type document struct {
	text  []byte
	plain []byte // with spaces for comments and trailing commas
	root  *node
}

// A scanner reads a document.
type scanner struct {
	*document
	at int
}

func scan(text []byte) (*document, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the file is longer than %d bytes", MaxText)
	}
	d := &document{text: text, plain: bytes.Clone(text)}
	s := &scanner{document: d}
	if bytes.HasPrefix(text, bom) {
		s.blank(0, len(bom))
		s.at = len(bom)
	}
	var err error
	if err = s.space(); err != nil {
		return nil, err
	}
	if d.root, err = s.value(0); err != nil {
		return nil, err
	}
	if err = s.space(); err != nil {
		return nil, err
	}
	if s.at < len(text) {
		return nil, s.fail("expected the end of the file")
	}
	if !json.Valid(d.plain) {
		return nil, fmt.Errorf("the file is not valid JSON with comments")
	}
	return d, nil
}

func (s *scanner) fail(text string) error {
	line := 1 + bytes.Count(s.text[:s.at], []byte("\n"))
	return fmt.Errorf("line %d: %s", line, text)
}

// blank replaces bytes of the plain text by spaces.
func (s *scanner) blank(from, to int) {
	for i := from; i < to; i++ {
		if s.plain[i] != '\n' && s.plain[i] != '\r' {
			s.plain[i] = ' '
		}
	}
}

// space skips white space and comments.
func (s *scanner) space() error {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			s.at++
		case bytes.HasPrefix(rest, []byte("//")):
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			s.blank(s.at, s.at+len(line))
			s.at += len(line)
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return s.fail("a comment has no end")
			}
			s.blank(s.at, s.at+end+4)
			s.at += end + 4
		default:
			return nil
		}
	}
	return nil
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) value(depth int) (*node, error) {
	n := &node{start: s.at, kind: s.peek()}
	if depth > maxDepth {
		return nil, s.fail("too many nested values")
	}
	var err error
	switch n.kind {
	case '{', '[':
		err = s.container(n, depth)
	case '"':
		_, err = s.quoted()
	default:
		for s.at < len(s.text) && strings.IndexByte(" \t\r\n,:]}/", s.text[s.at]) < 0 {
			s.at++
		}
		if s.at == n.start {
			err = s.fail("expected a value")
		}
	}
	n.end = s.at
	return n, err
}

// container reads an object or an array.
func (s *scanner) container(n *node, depth int) error {
	end := byte('}')
	if n.kind == '[' {
		end = ']'
	}
	s.at++
	comma := 0
	for {
		if err := s.space(); err != nil {
			return err
		}
		if s.peek() == end {
			if comma > 0 {
				s.plain[comma] = ' '
			}
			s.at++
			return nil
		}
		m := &member{start: s.at}
		if n.kind == '{' {
			var err error
			if m.name, err = s.key(); err != nil {
				return err
			}
		}
		value, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		m.value = value
		if n.kind == '{' {
			n.members = append(n.members, m)
		}
		if err := s.space(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			comma, m.comma = s.at, s.at
			s.at++
		case end:
			comma = 0
		default:
			return s.fail("expected a comma or the end of an object or array")
		}
	}
}

// key reads the name of a member and the colon.
func (s *scanner) key() (string, error) {
	if s.peek() != '"' {
		return "", s.fail("expected the name of a member")
	}
	name, err := s.quoted()
	if err != nil {
		return "", err
	}
	if err := s.space(); err != nil {
		return "", err
	}
	if s.peek() != ':' {
		return "", s.fail("expected a colon")
	}
	s.at++
	return name, s.space()
}

// quoted reads a string.
func (s *scanner) quoted() (string, error) {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			var text string
			if err := json.Unmarshal(s.text[start:s.at], &text); err != nil {
				return "", s.fail("a string is not valid")
			}
			return text, nil
		}
	}
	return "", s.fail("a string has no end")
}

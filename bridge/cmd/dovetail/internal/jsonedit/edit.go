// Package jsonedit changes one member of a JSON text and no other byte. Comments and trailing commas
// are permitted, as in the settings of editors.
package jsonedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// MaxText is the length of the longest text, in bytes.
const MaxText = 8 << 20

// maxDepth is the number of nested values.
const maxDepth = 200

// ErrNotFound is the error of removing a member that does not exist.
var ErrNotFound = errors.New("there is no such member")

// Set returns the text with a member of the object at path. Objects of the path that do not exist are
// added. An existing member gets the new value in its place; a repeated one is refused. value is JSON on one or more lines, and
// is indented as the text is. An empty text is an empty object.
func Set(text []byte, path []string, name string, value []byte) ([]byte, error) {
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, bom))) == 0 {
		text = append(bytes.Clone(text), "{}\n"...)
	}
	d, err := scan(text)
	if err != nil {
		return nil, err
	}
	object := d.root
	steps := append(slices.Clip(path), name)
	for n, step := range steps {
		if object.kind != '{' {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:n], "."))
		}
		at, err := object.index(step)
		switch {
		case err != nil:
			return nil, err
		case at < 0:
			for i := len(path); i > n; i-- {
				value = wrap(steps[i], value)
			}
			return checked(text, d.insert(object, step, value), steps)
		case n == len(path):
			m := object.members[at]
			return checked(text, splice(text, m.value.start, m.value.end, d.indented(value, d.indentAt(m.start))), steps)
		}
		object = object.members[at].value
	}
	return nil, ErrNotFound // not reached: the last step returns
}

// Remove returns the text without a member of the object at path. The error is ErrNotFound if there
// is no such member. A repeated member is refused.
func Remove(text []byte, path []string, name string) ([]byte, error) {
	d, err := scan(text)
	if err != nil {
		return nil, err
	}
	object := d.root
	steps := append(slices.Clip(path), name)
	for n, step := range steps {
		at, err := object.index(step)
		switch {
		case err != nil:
			return nil, err
		case at < 0:
			return nil, ErrNotFound
		case n == len(path):
			return checked(text, d.remove(object, at), steps)
		}
		object = object.members[at].value
	}
	return nil, ErrNotFound // not reached: the last step returns
}

// Plain returns the text as JSON: comments and trailing commas are spaces.
func Plain(text []byte) ([]byte, error) {
	d, err := scan(text)
	if err != nil {
		return nil, err
	}
	return d.plain, nil
}

// quote returns a JSON string.
func quote(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // never: a string can be encoded
		panic(err)
	}
	return quoted
}

// wrap returns an object with one member.
func wrap(name string, value []byte) []byte {
	key := quote(name)
	indented := bytes.ReplaceAll(value, []byte("\n"), []byte("\n  "))
	return fmt.Appendf(nil, "{\n  %s: %s\n}", key, indented)
}

func splice(text []byte, from, to int, by []byte) []byte {
	out := make([]byte, 0, len(text)+len(by))
	out = append(out, text[:from]...)
	out = append(out, by...)
	return append(out, text[to:]...)
}

// insert adds a member at the end of an object.
func (d *document) insert(object *node, name string, value []byte) []byte {
	key := quote(name)
	if len(object.members) == 0 {
		outer := d.indentAt(object.start)
		inner := outer + d.unit()
		by := append([]byte(d.newline()+inner+string(key)+": "), d.indented(value, inner)...)
		by = append(by, d.newline()+outer...)
		// Comments of an empty object stay before the member.
		end := object.end - 1
		start := len(bytes.TrimRight(d.text[:end], " \t\r\n"))
		return splice(d.text, start, end, by)
	}
	last := object.members[len(object.members)-1]
	if !bytes.Contains(d.text[object.start:last.start], []byte("\n")) { // all on one line
		by := append([]byte(string(key)+": "), compact(value)...)
		if last.comma > 0 {
			return splice(d.text, last.comma+1, last.comma+1, append([]byte(" "), append(by, ',')...))
		}
		return splice(d.text, last.value.end, last.value.end, append([]byte(", "), by...))
	}
	indent := d.indentAt(last.start)
	by := append([]byte(d.newline()+indent+string(key)+": "), d.indented(value, indent)...)
	text, at := d.text, last.value.end
	if last.comma > 0 {
		by, at = append(by, ','), last.comma+1
	} else {
		text = splice(text, at, at, []byte(","))
		at++
	}
	return splice(text, lineEnd(text, at), lineEnd(text, at), by)
}

// lineEnd returns the end of a comment that follows at, if the line ends with it, or at.
func lineEnd(text []byte, at int) int {
	line, _, _ := bytes.Cut(text[at:], []byte("\n"))
	trimmed := bytes.TrimLeft(line, " \t")
	switch {
	case bytes.HasPrefix(trimmed, []byte("//")):
		return at + len(bytes.TrimRight(line, "\r"))
	case bytes.HasPrefix(trimmed, []byte("/*")):
		if _, rest, ok := bytes.Cut(trimmed[2:], []byte("*/")); ok && len(bytes.TrimSpace(rest)) == 0 {
			return at + len(bytes.TrimRight(line, " \t\r"))
		}
	}
	return at
}

// remove cuts a member with its line, its comma, and a comment that follows on its line.
func (d *document) remove(object *node, at int) []byte {
	m, text := object.members[at], d.text
	from, to := m.start, m.value.end
	isLast := at == len(object.members)-1
	if m.comma > 0 {
		to = m.comma + 1
	}
	to = lineEnd(text, to)
	ownLine := len(bytes.TrimRight(text[:from], " \t")) == 0 || bytes.HasSuffix(bytes.TrimRight(text[:from], " \t"), []byte("\n"))
	rest := bytes.TrimLeft(text[to:], " \t\r")
	switch {
	case ownLine && bytes.HasPrefix(rest, []byte("\n")):
		from = len(bytes.TrimRight(text[:from], " \t"))
		to = len(text) - len(rest) + 1
	case isLast && at > 0:
		from = len(bytes.TrimRight(text[:from], " \t"))
	case !isLast:
		to += len(text[to:]) - len(bytes.TrimLeft(text[to:], " \t"))
	}
	out := splice(text, from, to, nil)
	if isLast && m.comma == 0 && at > 0 { // the comma before it would be a trailing one
		before := object.members[at-1].comma
		out = splice(out, before, before+1, nil)
	}
	return out
}

// newline returns the line break of the text.
func (d *document) newline() string {
	if bytes.Contains(d.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// indentAt returns the white space at the beginning of the line with an offset.
func (d *document) indentAt(at int) string {
	line := d.text[bytes.LastIndexByte(d.text[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// unit returns one step of indentation.
func (d *document) unit() string {
	for _, m := range d.root.members {
		if indent := d.indentAt(m.start); indent != "" && bytes.Contains(d.text[d.root.start:m.start], []byte("\n")) {
			return indent
		}
	}
	return "  "
}

// indented returns a value of several lines with the indentation of the text.
func (d *document) indented(value []byte, indent string) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, value, indent, d.unit()); err != nil {
		return value
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte(d.newline()))
}

func compact(value []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, value); err != nil {
		return value
	}
	return out.Bytes()
}

// checked returns the new text if it differs from the old one only in the member at path.
func checked(before, after []byte, path []string) ([]byte, error) {
	old, err := decoded(before)
	if err != nil {
		return nil, err
	}
	changed, err := decoded(after)
	if err != nil {
		return nil, fmt.Errorf("the change would break the file: %w", err)
	}
	if !reflect.DeepEqual(without(old, path), without(changed, path)) {
		return nil, errors.New("the file cannot be changed without changing other members")
	}
	return after, nil
}

func decoded(text []byte) (any, error) {
	d, err := scan(text)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(d.plain))
	decoder.UseNumber()
	var value any
	err = decoder.Decode(&value)
	return value, err
}

// without removes the value at path, and the objects of the path that are empty then.
func without(value any, path []string) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	if len(path) > 1 {
		inner, ok := object[path[0]].(map[string]any)
		if ok {
			without(inner, path[1:])
		}
		if len(inner) > 0 {
			return object
		}
	}
	delete(object, path[0])
	return object
}

package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A cursor is a value of the file and its place. Its methods read the value as what
// it should be; if it is something else they say so to the parser and return zero. The
// zero cursor is a value that is not there, which reads as zero too.
type cursor struct {
	parser *parser
	server string // the alias
	field  string
	raw    []byte
	at     int
}

func (c cursor) fail(format string, args ...any) {
	if p := c.parser; p != nil && len(p.errs) < maxReports {
		p.errs = append(p.errs, p.file.fail(c.at, c.server, c.field, fmt.Sprintf(format, args...), nil))
	}
}

func (c cursor) warn(format string, args ...any) {
	f := c.parser.file
	if len(f.Warnings) == maxReports {
		return
	}
	path := c.field
	if c.server != "" {
		path = c.parser.folder + c.server + "." + path
	}
	line, column := f.position(c.at)
	f.Warnings = append(f.Warnings, Warning{Line: line, Column: column, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c cursor) kind() jsonscan.Kind { return jsonscan.KindOf(c.raw) }

// is checks the kind; what is said in the error.
func (c cursor) is(kind jsonscan.Kind, what string) bool {
	if c.kind() == kind {
		return true
	}
	c.fail("expected %s, found %s", what, c.kind())
	return false
}

// A member is a cursor at the value of a member.
type member struct {
	cursor
	name string
	key  cursor
}

// members ranges over those of an object, but for repeated ones.
func (c cursor) members(what string) iter.Seq[member] {
	return func(yield func(member) bool) {
		if !c.is(jsonscan.Object, what) {
			return
		}
		s := jsonscan.New(c.raw)
		err := s.EnterObject()
		var keys jsonscan.Keys
		for first := true; err == nil; first = false {
			var raw, value []byte
			var ok bool
			if raw, ok, err = s.Member(first); err != nil || !ok {
				break
			}
			m := member{cursor: c, name: jsonscan.Unquote(raw)}
			m.field, m.at = c.path(m.name), c.at+s.KeyOffset()
			m.key = m.cursor
			duplicate := keys.Add(raw, m.at)
			if value, err = s.Value(); err != nil {
				break
			}
			m.raw, m.at = value, c.at+s.Offset()-len(value)
			if duplicate != nil {
				m.key.fail("%v", duplicate)
			} else if !yield(m) {
				return
			}
		}
		if err != nil { // the text was valid, so this is a bug
			c.fail("%v", err)
		}
	}
}

// elements ranges over those of an array.
func (c cursor) elements(what string) iter.Seq[cursor] {
	return func(yield func(cursor) bool) {
		if !c.is(jsonscan.Array, what) {
			return
		}
		s := jsonscan.New(c.raw)
		err := s.EnterArray()
		for n := 0; err == nil; n++ {
			var ok bool
			if ok, err = s.Element(n == 0); err != nil || !ok {
				break
			}
			e := c
			if e.raw, err = s.Value(); err != nil {
				break
			}
			e.field, e.at = c.field+"["+strconv.Itoa(n)+"]", c.at+s.Offset()-len(e.raw)
			if !yield(e) {
				return
			}
		}
		if err != nil {
			c.fail("%v", err)
		}
	}
}

// path is that of a member. A name that would not be safe to print is quoted.
func (c cursor) path(name string) string {
	unsafe := func(r rune) bool { return !isWord(r) && !strings.ContainsRune("-$/", r) }
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, unsafe) {
		return c.field + "[" + jsonscan.Quote(name) + "]"
	}
	if c.field == "" {
		return name
	}
	return c.field + "." + name
}

func isWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// A field is a member that an object may have, and what reads it.
type field struct {
	name string
	read func(cursor)
}

// into reads a member into a variable.
func into[T any](name string, to *T, read func(cursor) T) field {
	return field{name, func(c cursor) { *to = read(c) }}
}

// object reads an object. What to do with a member that is not known is for other to
// say.
func (c cursor) object(what string, other func(member), fields ...field) {
	for m := range c.members(what) {
		if i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.name }); i >= 0 {
			fields[i].read(m.cursor)
		} else {
			other(m)
		}
	}
}

// strict reads an object that has no other members than these.
func (c cursor) strict(what string, fields ...field) {
	c.object(what, func(m member) {
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.name
		}
		m.key.fail("expected one of %s", strings.Join(names, ", "))
	}, fields...)
}

// list reads an array.
func list[T any](c cursor, what string, read func(cursor) T) []T {
	var all []T
	for element := range c.elements(what) {
		all = append(all, read(element))
	}
	return all
}

func (c cursor) texts() []string { return list(c, "an array of strings", cursor.text) }

func (c cursor) text() string {
	if !c.is(jsonscan.String, "a string") {
		return ""
	}
	return jsonscan.Unquote(c.raw)
}

func (c cursor) flag() bool {
	return c.is(jsonscan.Bool, "true or false") && string(c.raw) == "true"
}

func (c cursor) count() int {
	if !c.is(jsonscan.Number, "a positive number") {
		return 0
	}
	n, err := strconv.ParseInt(string(c.raw), 10, 32)
	if err != nil || n < 1 {
		c.fail("expected an integer from 1 to %d", math.MaxInt32)
	}
	return int(n)
}

// duration reads a number of milliseconds, as most hosts have it, or a text with
// a unit.
func (c cursor) duration() time.Duration {
	var d time.Duration
	switch c.kind() {
	case jsonscan.Number:
		ms, err := strconv.ParseFloat(string(c.raw), 64)
		if err == nil && 0 < ms && ms < math.MaxInt64/float64(time.Millisecond) {
			d = max(time.Duration(ms*float64(time.Millisecond)), 1)
		}
	case jsonscan.String:
		d, _ = time.ParseDuration(jsonscan.Unquote(c.raw)) // 0 if it is none
	}
	if d <= 0 {
		c.fail(`expected a positive duration such as "30s", or a number of milliseconds, found %s`, c.kind())
		return 0
	}
	return d
}

// keep keeps a member that has no meaning here, unless it differs from a known one in
// case only, which is an error.
func (m member) keep(extra *map[string]json.RawMessage, known iter.Seq[string]) {
	if m.misspells(known) {
		return
	}
	if *extra == nil {
		*extra = make(map[string]json.RawMessage)
	}
	(*extra)[m.name] = slices.Clone(m.raw)
	m.key.warn("has no meaning here")
}

// misspells complains of a name that differs from a known one in case only.
func (m member) misspells(known iter.Seq[string]) bool {
	for name := range known {
		if strings.EqualFold(m.name, name) {
			m.key.fail("expected it to be written %q", name)
			return true
		}
	}
	return false
}

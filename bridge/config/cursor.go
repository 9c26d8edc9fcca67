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

// A cursor is a value in the file and its position. Its methods read a value of a certain
// type; for another type they report an error to the parser and return zero. The zero cursor
// is an absent value and reads as zero.
type cursor struct {
	parser *parser
	server string // the alias
	field  string
	raw    []byte
	at     int
}

func (c cursor) fail(format string, args ...any) {
	p := c.parser
	if p == nil {
		return
	}
	if p.failures++; len(p.errs) < maxReports {
		p.errs = append(p.errs, p.file.newError(c.at, c.server, c.field, fmt.Sprintf(format, args...), nil))
	}
}

func (c cursor) warn(format string, args ...any) {
	f := c.parser.file
	if len(f.Warnings) == maxReports {
		return
	}
	path := c.field
	if c.server != "" {
		path = c.parser.prefix + c.server + "." + path
	}
	line, column := f.position(c.at)
	f.Warnings = append(f.Warnings, Warning{Line: line, Column: column, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c cursor) kind() jsonscan.Kind { return jsonscan.KindOf(c.raw) }

// is reports whether the value has a kind. If not, it reports an error with the description of
// the expected value.
func (c cursor) is(kind jsonscan.Kind, expected string) bool {
	if c.kind() == kind {
		return true
	}
	c.fail("expected %s, found %s", expected, c.kind())
	return false
}

// A member is the value of a member, with its name and a cursor at the key.
type member struct {
	cursor
	name string
	key  cursor
}

// members ranges over the members of an object. Repeated ones are errors and left out.
func (c cursor) members(expected string) iter.Seq[member] {
	return func(yield func(member) bool) {
		if !c.is(jsonscan.Object, expected) {
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
		if err != nil { // a bug: the text is valid
			c.fail("%v", err)
		}
	}
}

// elements ranges over the elements of an array.
func (c cursor) elements(expected string) iter.Seq[cursor] {
	return func(yield func(cursor) bool) {
		if !c.is(jsonscan.Array, expected) {
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

// path returns the path of a member. A name with special characters is quoted.
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

// A memberReader reads a known member of an object.
type memberReader struct {
	name string
	read func(cursor)
}

// into returns a memberReader that stores the value in a variable.
func into[T any](name string, to *T, read func(cursor) T) memberReader {
	return memberReader{name, func(c cursor) { *to = read(c) }}
}

// object reads an object. It calls unknown for members that are not fields.
func (c cursor) object(expected string, unknown func(member), fields ...memberReader) {
	for m := range c.members(expected) {
		if i := slices.IndexFunc(fields, func(f memberReader) bool { return f.name == m.name }); i >= 0 {
			fields[i].read(m.cursor)
		} else {
			unknown(m)
		}
	}
}

// strict reads an object in which unknown members are errors.
func (c cursor) strict(expected string, fields ...memberReader) {
	c.object(expected, func(m member) {
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.name
		}
		m.key.fail("expected one of %s", strings.Join(names, ", "))
	}, fields...)
}

func list[T any](c cursor, expected string, read func(cursor) T) []T {
	var all []T
	for element := range c.elements(expected) {
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

// number reads a positive number of units. It returns 0 for an absent value.
func (c cursor) number(unit time.Duration) (d time.Duration) {
	if c.raw == nil || !c.is(jsonscan.Number, "a positive number") {
		return 0
	}
	if d = c.units(unit); d == 0 {
		c.fail("expected a positive number")
	}
	return d
}

// units returns a number of units as a duration, or 0 if it is not positive or too large.
func (c cursor) units(unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(string(c.raw), 64)
	if err != nil || n <= 0 || n >= math.MaxInt64/float64(unit) {
		return 0
	}
	return max(time.Duration(n*float64(unit)), 1)
}

// duration reads a number of milliseconds, which most hosts use, or a string with a unit.
func (c cursor) duration() time.Duration {
	var d time.Duration
	switch c.kind() {
	case jsonscan.Number:
		d = c.units(time.Millisecond)
	case jsonscan.String:
		d, _ = time.ParseDuration(jsonscan.Unquote(c.raw)) // 0 if it is not valid
	}
	if d <= 0 {
		c.fail(`expected a positive duration such as "30s", or a number of milliseconds, found %s`, c.kind())
		return 0
	}
	return d
}

// keep stores an unknown member in extra and warns. A name that differs from a known one only
// in case is an error.
func (m member) keep(extra *map[string]json.RawMessage, known iter.Seq[string]) {
	if m.misspells(known) {
		return
	}
	if *extra == nil {
		*extra = make(map[string]json.RawMessage)
	}
	(*extra)[m.name] = slices.Clone(m.raw)
	m.key.warn("is unknown and has no effect")
}

// misspells reports an error if the name differs from a known one only in case.
func (m member) misspells(known iter.Seq[string]) bool {
	for name := range known {
		if m.name != name && strings.EqualFold(m.name, name) {
			m.key.fail("expected the spelling %q", name)
			return true
		}
	}
	return false
}

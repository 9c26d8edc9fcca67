package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An argument is a compiled [Argument].
type argument struct {
	label    string // "arguments[0]"
	path     pointer
	present  *bool
	equals   []byte // a string is without quotes and escapes
	kind     jsonscan.Kind
	number   number // of equals
	globs    globs
	prefixes []string
	min, max *number
}

func compileArgument(path string, a *Argument) (c argument, err error) {
	c.label = path[strings.LastIndexByte(path, '.')+1:]
	wrong := func(member, message string) error { return &CompileError{path + member, message} }
	if err := checkText(a.Path); err != nil {
		return c, wrong(".path", err.Error())
	}
	if c.path, err = compilePointer(a.Path); err != nil {
		return c, wrong(".path", err.Error())
	}
	values := a.Equals != nil || a.Glob != nil || a.Prefix != nil || a.Min != "" || a.Max != ""
	switch {
	case a.Present == nil && !values:
		return c, wrong("", "expected present, equals, glob, prefix, min or max")
	case a.Present != nil && !*a.Present && values:
		return c, wrong(".present", "what is not present has no value to compare")
	case a.Glob != nil && len(a.Glob) == 0:
		return c, wrong(".glob", errNothing)
	case a.Prefix != nil && len(a.Prefix) == 0:
		return c, wrong(".prefix", errNothing)
	}
	if a.Present != nil {
		c.present = new(*a.Present)
	}
	if a.Equals != nil {
		if err := c.compileEquals(a.Equals); err != nil {
			return c, wrong(".equals", err.Error())
		}
	}
	if c.globs, err = compileGlobs(path+".glob", a.Glob, MaxTerms); err != nil {
		return c, err
	}
	if _, err := compileGlobs(path+".prefix", a.Prefix, MaxTerms); err != nil {
		return c, err
	}
	c.prefixes = append(c.prefixes, a.Prefix...)
	if c.min, err = compileBound(a.Min); err != nil {
		return c, wrong(".min", err.Error())
	}
	if c.max, err = compileBound(a.Max); err != nil {
		return c, wrong(".max", err.Error())
	}
	return c, nil
}

func (c *argument) compileEquals(value []byte) error {
	value = bytes.TrimSpace(value)
	if len(value) > MaxPattern {
		return fmt.Errorf("it has %d bytes, and may have %d", len(value), MaxPattern)
	}
	if err := jsonscan.Valid(value); err != nil {
		return err
	}
	switch c.kind = jsonscan.KindOf(value); c.kind {
	case jsonscan.String:
		c.equals = jsonscan.AppendUnquoted(nil, value)
	case jsonscan.Number:
		n, err := compileBound(json.Number(value))
		if err != nil {
			return err
		}
		c.number = *n
	case jsonscan.Bool, jsonscan.Null:
		c.equals = bytes.Clone(value)
	default:
		return fmt.Errorf("expected a string, a number, a boolean or null, found %v", c.kind)
	}
	return nil
}

// compileBound compiles a number, nil if there is none.
func compileBound(text json.Number) (*number, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if jsonscan.KindOf(raw) != jsonscan.Number || len(raw) > MaxPattern || jsonscan.Valid(raw) != nil {
		return nil, fmt.Errorf("expected a number, found %.60q", text)
	}
	n, ok := readNumber(bytes.TrimSpace(raw))
	if !ok {
		return nil, fmt.Errorf("the exponent of %.60q has more than %d digits", text, maxExponent)
	}
	return &n, nil
}

// holds says whether all that the predicate says is so.
func (c *argument) holds(arguments []byte) truth {
	value, found := c.path.find(arguments)
	if found == unknown {
		return unknown
	}
	if c.present != nil && *c.present != (found == yes) {
		return no
	}
	if found == no {
		return of(c.present != nil)
	}
	kind := jsonscan.KindOf(value)
	t := yes
	if c.kind != jsonscan.Invalid {
		t = min(t, c.isEqual(kind, value))
	}
	if len(c.globs)+len(c.prefixes) > 0 {
		t = min(t, c.matchesText(kind, value))
	}
	if c.min != nil || c.max != nil {
		t = min(t, c.isWithin(kind, value))
	}
	return t
}

func (c *argument) isEqual(kind jsonscan.Kind, value []byte) truth {
	if kind != c.kind {
		return unknown
	}
	switch kind {
	case jsonscan.String:
		var buf [256]byte
		return of(bytes.Equal(unquoted(buf[:0], value), c.equals))
	case jsonscan.Number:
		n, ok := readNumber(value)
		if !ok {
			return unknown
		}
		return of(n.compare(c.number) == 0)
	default:
		return of(bytes.Equal(value, c.equals))
	}
}

func (c *argument) matchesText(kind jsonscan.Kind, value []byte) truth {
	if kind != jsonscan.String || len(c.globs) > 0 && len(value) > MaxText {
		return unknown
	}
	var buf [256]byte
	text := unquoted(buf[:0], value)
	begins := len(c.prefixes) == 0
	for _, prefix := range c.prefixes {
		begins = begins || len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix
	}
	return of(begins && (len(c.globs) == 0 || c.globs.matchAny(text)))
}

func (c *argument) isWithin(kind jsonscan.Kind, value []byte) truth {
	if kind != jsonscan.Number {
		return unknown
	}
	n, ok := readNumber(value)
	if !ok {
		return unknown
	}
	return of((c.min == nil || n.compare(*c.min) >= 0) && (c.max == nil || n.compare(*c.max) <= 0))
}

package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A compiledArgument is a compiled [Argument].
type compiledArgument struct {
	label    string // "arguments[0]"
	path     pointer
	present  *bool
	equals   []byte // a string is unquoted
	kind     jsonscan.Kind
	number   number // of equals
	globs    globs
	prefixes []string
	min, max *number
}

func compileArgument(path string, a *Argument) (c compiledArgument, err error) {
	c.label = path[strings.LastIndexByte(path, '.')+1:]
	wrong := func(member, message string) error { return &CompileError{path + member, message} }
	if err := checkText(a.Path); err != nil {
		return c, wrong(".path", err.Error())
	}
	if c.path, err = jsonscan.ParsePointer(a.Path); err != nil {
		return c, wrong(".path", err.Error())
	}
	values := a.Equals != nil || a.Glob != nil || a.Prefix != nil || a.Min != "" || a.Max != ""
	switch {
	case a.Present == nil && !values:
		return c, wrong("", "expected present, equals, glob, prefix, min or max")
	case a.Present != nil && !*a.Present && values:
		return c, wrong(".present", "a missing argument has no value to compare")
	}
	c.present = clone(a.Present)
	if a.Equals != nil {
		if err := c.compileEquals(a.Equals); err != nil {
			return c, wrong(".equals", err.Error())
		}
	}
	if c.globs, err = compileTerms(path+".glob", a.Glob); err != nil {
		return c, err
	}
	if _, err := compileTerms(path+".prefix", a.Prefix); err != nil {
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

func (c *compiledArgument) compileEquals(value []byte) error {
	value = bytes.TrimSpace(value)
	if len(value) > maxPattern {
		return fmt.Errorf("expected at most %d bytes, found %d", maxPattern, len(value))
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

// compileBound compiles a number. The result is nil if text is empty.
func compileBound(text json.Number) (*number, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if jsonscan.KindOf(raw) != jsonscan.Number || len(raw) > maxPattern || jsonscan.Valid(raw) != nil {
		return nil, fmt.Errorf("expected a number, found %.60q", text)
	}
	n, ok := readNumber(bytes.TrimSpace(raw))
	if !ok {
		return nil, fmt.Errorf("the exponent of %.60q has more than %d digits", text, maxExponent)
	}
	return &n, nil
}

// holds reports whether all parts of the predicate hold.
func (c *compiledArgument) holds(arguments []byte) tristate {
	value, found := c.path.find(arguments)
	if found == unknown {
		return unknown
	}
	if c.present != nil && *c.present != (found == yes) {
		return no
	}
	if found == no {
		return tristateOf(c.present != nil)
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

func (c *compiledArgument) isEqual(kind jsonscan.Kind, value []byte) tristate {
	if kind != c.kind {
		return unknown
	}
	switch kind {
	case jsonscan.String:
		var buf [256]byte
		return tristateOf(bytes.Equal(unquoted(buf[:0], value), c.equals))
	case jsonscan.Number:
		n, ok := readNumber(value)
		if !ok {
			return unknown
		}
		return tristateOf(n.compare(c.number) == 0)
	default:
		return tristateOf(bytes.Equal(value, c.equals))
	}
}

func (c *compiledArgument) matchesText(kind jsonscan.Kind, value []byte) tristate {
	if kind != jsonscan.String || len(c.globs) > 0 && len(value) > maxText {
		return unknown
	}
	var buf [256]byte
	text := unquoted(buf[:0], value)
	begins := len(c.prefixes) == 0
	for _, prefix := range c.prefixes {
		begins = begins || len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix
	}
	return tristateOf(begins && (len(c.globs) == 0 || c.globs.findBytes(text) >= 0))
}

func (c *compiledArgument) isWithin(kind jsonscan.Kind, value []byte) tristate {
	if kind != jsonscan.Number {
		return unknown
	}
	n, ok := readNumber(value)
	if !ok {
		return unknown
	}
	return tristateOf((c.min == nil || n.compare(*c.min) >= 0) && (c.max == nil || n.compare(*c.max) <= 0))
}

// A pointer holds the unescaped tokens of a JSON Pointer (RFC 6901).
type pointer []string

// find returns the value that the pointer refers to. It is unknown whether the value exists
// if JSON readers could disagree about it.
func (p pointer) find(text []byte) (value []byte, found tristate) {
	value = text
	for _, token := range p {
		switch jsonscan.KindOf(value) {
		case jsonscan.Object:
			value, found = member(value, token)
		case jsonscan.Array:
			value, found = element(value, token)
		case jsonscan.Null, jsonscan.EOF:
			return nil, no
		default:
			return nil, unknown
		}
		if found != yes {
			return nil, found
		}
	}
	return value, yes
}

// member returns a member of an object. It is unknown whether a member exists that occurs
// twice, or whose name differs in case.
func member(object []byte, name string) (value []byte, found tristate) {
	scan := jsonscan.New(object)
	if scan.EnterObject() != nil {
		return nil, unknown
	}
	for first := true; ; first = false {
		key, ok, err := scan.Member(first)
		if err != nil {
			return nil, unknown
		}
		if !ok {
			return value, found
		}
		text, err := scan.Value()
		if err != nil {
			return nil, unknown
		}
		switch {
		case jsonscan.KeyIs(key, name):
			if found == yes {
				return nil, unknown
			}
			value, found = text, yes
		case isVariant(key, name):
			return nil, unknown
		}
	}
}

// isVariant reports whether a key equals the name if case is ignored.
func isVariant(key []byte, name string) bool {
	var buf [64]byte
	return bytes.EqualFold(unquoted(buf[:0], key), []byte(name))
}

// element returns an element of an array. A token that is not an index is unknown, because
// readers of other languages may accept it as one.
func element(array []byte, token string) (value []byte, found tristate) {
	index, ok := jsonscan.TokenIndex(token)
	if !ok {
		return nil, unknown
	}
	value, err := jsonscan.ElementAt(array, index)
	switch {
	case err != nil:
		return nil, unknown
	case value == nil:
		return nil, no
	}
	return value, yes
}

// unquoted returns the text of a raw JSON string. It uses buf only if there are escapes.
func unquoted(buf, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return jsonscan.AppendUnquoted(buf, raw)
}

// A number is a JSON number of any size: ±0.digits × 10^magnitude.
type number struct {
	negative  bool
	digits    []byte // from the first to the last digit other than 0; may contain the point
	magnitude int64
}

// maxExponent is the maximum number of digits of an exponent.
const maxExponent = 17

// readNumber splits a valid JSON number. ok is false if its exponent is too long.
func readNumber(text []byte) (n number, ok bool) {
	text, n.negative = bytes.CutPrefix(text, []byte("-"))
	mantissa, exponent, ok := text, int64(0), true
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		mantissa = text[:e]
		exponent, ok = readExponent(text[e+1:])
	}
	whole := len(mantissa)
	if point := bytes.IndexByte(mantissa, '.'); point >= 0 {
		whole = point
	}
	n.digits = bytes.TrimLeft(mantissa, "0.")
	first := len(mantissa) - len(n.digits)
	if n.digits = bytes.TrimRight(n.digits, "0."); len(n.digits) == 0 {
		return number{}, true
	}
	if first > whole { // the point precedes the first digit
		first--
	}
	n.magnitude = int64(whole-first) + exponent
	return n, ok
}

func readExponent(text []byte) (exponent int64, ok bool) {
	text = bytes.TrimPrefix(text, []byte("+"))
	text, negative := bytes.CutPrefix(text, []byte("-"))
	text = bytes.TrimLeft(text, "0")
	if len(text) > maxExponent {
		return 0, false
	}
	for _, c := range text {
		exponent = exponent*10 + int64(c-'0')
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

// compare returns -1, 0 or 1, as cmp.Compare does.
func (n number) compare(other number) int {
	if n.sign() != other.sign() {
		return cmp.Compare(n.sign(), other.sign())
	}
	if n.magnitude != other.magnitude {
		return n.sign() * cmp.Compare(n.magnitude, other.magnitude)
	}
	return n.sign() * compareDigits(n.digits, other.digits)
}

func (n number) sign() int {
	switch {
	case len(n.digits) == 0:
		return 0
	case n.negative:
		return -1
	default:
		return 1
	}
}

func compareDigits(a, b []byte) int {
	for {
		a, b = bytes.TrimPrefix(a, []byte(".")), bytes.TrimPrefix(b, []byte("."))
		if len(a) == 0 || len(b) == 0 {
			return cmp.Compare(len(a), len(b)) // the last digit is not 0
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
}

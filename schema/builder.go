package schema

import (
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
)

// A builder makes one node, keyword by keyword.
type builder struct {
	*compiler
	node    *node
	pointer string
	depth   int
}

func (b *builder) fail(keyword, reason string) error {
	return &CompileError{Pointer: b.pointer + "/" + escapeStep(keyword), Reason: reason}
}

func (b *builder) keyword(name, value []byte) error {
	switch string(name) {
	case "type":
		return b.types(value)
	case "enum":
		return b.enum(value)
	case "const":
		b.node.constant = newEnum(value)
	case "default":
		b.node.fallback = value
		b.defaults = append(b.defaults, defaulted{b.pointer + "/default", b.node})
	case "$ref":
		return b.ref(value)
	case "properties":
		return b.properties(value)
	case "patternProperties":
		return b.patternProperties(value)
	case "required":
		return b.required(value)
	case "additionalProperties":
		return b.additional(value)
	case "items":
		return b.items(value)
	case "prefixItems":
		return b.prefixItems(value)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return b.bound(string(name), value)
	case "multipleOf":
		return b.multipleOf(value)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return b.count(string(name), value)
	case "uniqueItems":
		b.lists().unique = string(value) == "true"
		return b.expect("uniqueItems", value, jsonscan.Bool, "a boolean")
	case "pattern":
		return b.pattern(value)
	case "$defs", "definitions":
		return b.definitions(string(name), value)
	default:
		return b.other(string(name), value)
	}
	return nil
}

// other is about keywords that say nothing of validity, and those that nodes
// do not know.
func (b *builder) other(name string, value []byte) error {
	switch name {
	case "title", "description", "$comment", "format", "contentEncoding", "contentMediaType":
		return b.expect(name, value, jsonscan.String, "a string")
	case "deprecated", "readOnly", "writeOnly":
		return b.expect(name, value, jsonscan.Bool, "a boolean")
	case "examples":
		return b.expect(name, value, jsonscan.Array, "an array")
	case "$schema":
		b.beyond = b.beyond || b.pointer != ""
		return b.expect(name, value, jsonscan.String, "a string")
	}
	if !strings.HasPrefix(name, "x-") {
		b.beyond = true
	}
	return nil
}

func (b *builder) expect(name string, value []byte, kind jsonscan.Kind, what string) error {
	if jsonscan.KindOf(value) != kind {
		return b.fail(name, "expected "+what+", got "+typedText(value))
	}
	return nil
}

func (b *builder) types(value []byte) error {
	names := [][]byte{value}
	if jsonscan.KindOf(value) == jsonscan.Array {
		names = nil
		for _, name := range elements(value) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := b.expect("type", name, jsonscan.String, "a string or an array of strings"); err != nil {
			return err
		}
		t, ok := typeNamed(string(plain(name)))
		if !ok {
			return b.fail("type", "there is no type "+literalText(name))
		}
		if b.node.types&t != 0 {
			return b.fail("type", literalText(name)+" is given twice")
		}
		b.node.types |= t
	}
	if b.node.types == 0 {
		return b.fail("type", "expected at least one type")
	}
	return nil
}

func (b *builder) enum(value []byte) error {
	if err := b.expect("enum", value, jsonscan.Array, "an array"); err != nil {
		return err
	}
	var values [][]byte
	for _, item := range elements(value) {
		values = append(values, item)
	}
	b.node.enum = newEnum(values...)
	return nil
}

func (b *builder) ref(value []byte) error {
	if err := b.expect("$ref", value, jsonscan.String, "a string"); err != nil {
		return err
	}
	return b.refer(b.node, string(plain(value)), b.pointer, b.depth)
}

func (b *builder) pattern(value []byte) error {
	if err := b.expect("pattern", value, jsonscan.String, "a string"); err != nil {
		return err
	}
	pattern, err := b.compilePattern("pattern", string(plain(value)))
	b.texts().pattern = pattern
	return err
}

func (b *builder) compilePattern(keyword, text string) (*pattern.Pattern, error) {
	compiled, err := b.patterns.compile(text)
	if err != nil {
		return nil, b.fail(keyword, err.Error())
	}
	return compiled, nil
}

func (b *builder) bound(name string, value []byte) error {
	if err := b.expect(name, value, jsonscan.Number, "a number"); err != nil {
		return err
	}
	limit, _ := parseDecimal(value) // checked with the text of the schema
	bd := bound{keyword: name, limit: limit, sign: 1, text: string(value)}
	bd.small, bd.isSmall = small(value)
	switch name {
	case "minimum":
		bd.words, bd.sign = "at least", -1
	case "maximum":
		bd.words = "at most"
	case "exclusiveMinimum":
		bd.words, bd.sign, bd.open = "more than", -1, true
	case "exclusiveMaximum":
		bd.words, bd.open = "less than", true
	}
	b.numbers().bounds = append(b.numbers().bounds, bd)
	return nil
}

func (b *builder) multipleOf(value []byte) error {
	if err := b.expect("multipleOf", value, jsonscan.Number, "a number"); err != nil {
		return err
	}
	limit, _ := parseDecimal(value)
	if limit.negative || limit.digits() == 0 {
		return b.fail("multipleOf", "expected more than 0, got "+literalText(value))
	}
	m, ok := newDivisor(limit)
	if !ok {
		b.beyond = true
		return nil
	}
	b.numbers().multipleOf, b.numbers().multiple = &m, string(value)
	return nil
}

// count reads the keywords whose value is a number of things.
func (b *builder) count(name string, value []byte) error {
	d, ok := decimal{}, false
	if jsonscan.KindOf(value) == jsonscan.Number {
		d, ok = parseDecimal(value)
	}
	if !ok || d.negative || !d.isInteger() {
		return b.fail(name, "expected a whole number, got "+literalText(value))
	}
	n := 1 << 30 // more than anything has
	if exact, fits := small(d.appendInteger(nil)); fits && exact < int64(n) {
		n = int(exact)
	}
	switch name {
	case "minLength":
		b.texts().minLength = n
	case "maxLength":
		b.texts().maxLength = n
	case "minItems":
		b.lists().minItems = n
	case "maxItems":
		b.lists().maxItems = n
	case "minProperties":
		b.objects().min = n
	case "maxProperties":
		b.objects().max = n
	}
	return nil
}

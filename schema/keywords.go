package schema

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
)

// A builder compiles the keywords of one schema into a node.
type builder struct {
	*compiler
	node    *node
	pointer string
	depth   int
}

func (b *builder) fail(keyword, reason string) error {
	return &CompileError{Pointer: b.pointer + "/" + jsonscan.EscapeToken(keyword), Reason: reason}
}

func (b *builder) expect(keyword string, value []byte, kind jsonscan.Kind, what string) error {
	if jsonscan.KindOf(value) != kind {
		return b.fail(keyword, "expected "+what+", got "+typedText(value))
	}
	return nil
}

// keyword compiles a keyword. Keywords that restrict no values come first.
func (b *builder) keyword(name string, value []byte) (err error) {
	switch name {
	case "title", "description", "$comment", "format", "contentEncoding", "contentMediaType":
		return b.expect(name, value, jsonscan.String, "a string")
	case "deprecated", "readOnly", "writeOnly":
		return b.expect(name, value, jsonscan.Bool, "a boolean")
	case "examples":
		return b.expect(name, value, jsonscan.Array, "an array")
	case "$schema":
		b.needsGeneral = b.needsGeneral || b.pointer != ""
		return b.expect(name, value, jsonscan.String, "a string")
	case "$defs", "definitions":
		return b.schemas(name, value, func(string, *node) error { return nil })
	case "default":
		b.node.fallback = value
		b.defaults = append(b.defaults, defaulted{b.pointer + "/default", b.node})
		return nil
	case "$ref":
		return b.ref(value)
	}
	b.node.refOnly = false
	switch name {
	case "type":
		return b.types(value)
	case "enum":
		return b.enum(value)
	case "const":
		b.node.constant = newEnum(value)
	case "properties":
		return b.properties(value)
	case "patternProperties":
		return b.patternProperties(value)
	case "required":
		return b.required(value)
	case "additionalProperties":
		b.node.additionalProperties, err = b.schema(value, b.pointer+"/additionalProperties")
	case "items":
		if jsonscan.KindOf(value) == jsonscan.Array {
			b.needsGeneral = true // in draft-07 an array is what prefixItems is today
			return nil
		}
		b.node.items, err = b.schema(value, b.pointer+"/items")
	case "prefixItems":
		return b.prefixItems(value)
	case "minimum":
		return b.bound(bound{keyword: "minimum", relation: "at least", sign: -1}, value)
	case "maximum":
		return b.bound(bound{keyword: "maximum", relation: "at most", sign: 1}, value)
	case "exclusiveMinimum":
		return b.bound(bound{keyword: "exclusiveMinimum", relation: "more than", sign: -1, open: true}, value)
	case "exclusiveMaximum":
		return b.bound(bound{keyword: "exclusiveMaximum", relation: "less than", sign: 1, open: true}, value)
	case "multipleOf":
		return b.multipleOf(value)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return b.count(name, value)
	case "uniqueItems":
		b.node.uniqueItems = string(value) == "true"
		b.unique = b.unique || b.node.uniqueItems
		return b.expect(name, value, jsonscan.Bool, "a boolean")
	case "pattern":
		return b.pattern(value)
	default:
		b.needsGeneral = b.needsGeneral || !strings.HasPrefix(name, "x-")
	}
	return err
}

func (b *builder) types(value []byte) error {
	names := [][]byte{value}
	if jsonscan.KindOf(value) == jsonscan.Array {
		names = collect(value)
	}
	for _, name := range names {
		if err := b.expect("type", name, jsonscan.String, "a string or an array of strings"); err != nil {
			return err
		}
		t := typeNamed(string(plain(name)))
		if t == 0 {
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
	b.node.enum = newEnum(collect(value)...)
	return nil
}

// ref records a $ref to this document. It is resolved when all is compiled, so that most targets
// need no search. Other references are left to the general validator.
func (b *builder) ref(value []byte) error {
	if err := b.expect("$ref", value, jsonscan.String, "a string"); err != nil {
		return err
	}
	fragment, local := strings.CutPrefix(string(plain(value)), "#")
	if !local || fragment != "" && fragment[0] != '/' {
		b.needsGeneral = true
		return nil
	}
	target, err := url.PathUnescape(fragment)
	if err != nil {
		return b.fail("$ref", err.Error())
	}
	b.refs = append(b.refs, reference{b.node, b.pointer, target, b.depth})
	return nil
}

func (b *builder) bound(bd bound, value []byte) (err error) {
	bd.text = string(value)
	bd.limit, err = b.number(bd.keyword, value)
	b.node.bounds = append(b.node.bounds, bd)
	return err
}

func (b *builder) number(keyword string, value []byte) (number, error) {
	if err := b.expect(keyword, value, jsonscan.Number, "a number"); err != nil {
		return number{}, err
	}
	n, _ := parseNumber(value) // checkText has checked the limits
	return n, nil
}

func (b *builder) multipleOf(value []byte) error {
	n, err := b.number("multipleOf", value)
	if err != nil {
		return err
	}
	if n.compare(number{}) <= 0 {
		return b.fail("multipleOf", "expected more than 0, got "+literalText(value))
	}
	b.node.multipleOf = &multiple{n, string(value)}
	return nil
}

// count compiles a keyword with the number of characters, items or members.
func (b *builder) count(keyword string, value []byte) error {
	limits := map[string]*int{
		"minLength": &b.node.minLength, "maxLength": &b.node.maxLength,
		"minItems": &b.node.minItems, "maxItems": &b.node.maxItems,
		"minProperties": &b.node.minProperties, "maxProperties": &b.node.maxProperties,
	}
	n, ok := number{}, false
	if jsonscan.KindOf(value) == jsonscan.Number {
		n, ok = parseNumber(value)
	}
	if !ok || !n.isInteger() || n.compare(number{}) < 0 {
		return b.fail(keyword, "expected a whole number, got "+literalText(value))
	}
	limit := int64(1 << 30) // more than an instance has
	if n.exact == nil {
		limit = min(n.small, limit)
	}
	*limits[keyword] = int(limit)
	return nil
}

func (b *builder) pattern(value []byte) (err error) {
	if err := b.expect("pattern", value, jsonscan.String, "a string"); err != nil {
		return err
	}
	b.node.pattern, err = b.compilePattern("pattern", string(plain(value)))
	return err
}

func (b *builder) compilePattern(keyword, text string) (*pattern.Pattern, error) {
	compiled, err := b.patterns.compile(text)
	if err != nil {
		return nil, b.fail(keyword, err.Error())
	}
	return compiled, nil
}

// schema compiles a schema inside this one.
func (b *builder) schema(value []byte, pointer string) (*node, error) {
	return b.compileSchema(value, pointer, b.depth+1)
}

// schemas compiles the schemas that are the members of an object.
func (b *builder) schemas(keyword string, value []byte, add func(name string, n *node) error) error {
	if err := b.expect(keyword, value, jsonscan.Object, "an object"); err != nil {
		return err
	}
	members, err := jsonscan.ReadObject(value)
	if err != nil {
		return b.fail(keyword, err.Error())
	}
	for m := range members.All() {
		name := m.Name()
		n, err := b.schema(m.Value, b.pointer+"/"+keyword+"/"+jsonscan.EscapeToken(name))
		if err != nil {
			return err
		}
		if err := add(name, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) properties(value []byte) error {
	return b.schemas("properties", value, func(name string, n *node) error {
		m := b.member(name)
		m.declared, m.node = true, n
		return nil
	})
}

func (b *builder) patternProperties(value []byte) error {
	return b.schemas("patternProperties", value, func(name string, n *node) error {
		pattern, err := b.compilePattern("patternProperties", name)
		b.node.patternProperties = append(b.node.patternProperties, patternMember{pattern, n})
		return err
	})
}

func (b *builder) required(value []byte) error {
	if err := b.expect("required", value, jsonscan.Array, "an array of strings"); err != nil {
		return err
	}
	for _, name := range elements(value) {
		if err := b.expect("required", name, jsonscan.String, "an array of strings"); err != nil {
			return err
		}
		m := b.member(jsonscan.Unquote(name))
		if m.required {
			return b.fail("required", literalText(name)+" is given twice")
		}
		m.required = true
	}
	return nil
}

// member returns the member with a name. It adds the member if it is new.
func (b *builder) member(name string) *member {
	n := b.node
	i, ok := n.byName[name]
	if !ok {
		if n.byName == nil {
			n.byName = map[string]int{}
		}
		i = len(n.members)
		n.byName[name] = i
		n.members = append(n.members, member{name: name})
	}
	return &n.members[i]
}

func (b *builder) prefixItems(value []byte) error {
	if b.draft07 {
		b.needsGeneral = true
		return nil
	}
	if err := b.expect("prefixItems", value, jsonscan.Array, "an array"); err != nil {
		return err
	}
	for i, item := range elements(value) {
		n, err := b.schema(item, b.pointer+"/prefixItems/"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		b.node.prefixItems = append(b.node.prefixItems, n)
	}
	return nil
}

// collect returns the elements of a valid array.
func collect(array []byte) [][]byte {
	var list [][]byte
	for _, element := range elements(array) {
		list = append(list, element)
	}
	return list
}

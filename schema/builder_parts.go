package schema

import (
	"bytes"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// The rules of the node for one type of value, made when first needed.

func (b *builder) objects() *objectRules {
	if b.node.object == nil {
		rules := anyObject
		b.node.object = &rules
	}
	return b.node.object
}

func (b *builder) lists() *listRules {
	if b.node.list == nil {
		rules := anyList
		b.node.list = &rules
	}
	return b.node.list
}

func (b *builder) texts() *textRules {
	if b.node.text == nil {
		rules := anyText
		b.node.text = &rules
	}
	return b.node.text
}

func (b *builder) numbers() *numberRules {
	if b.node.number == nil {
		b.node.number = &numberRules{}
	}
	return b.node.number
}

// part compiles a schema inside this one.
func (b *builder) part(value []byte, keyword string, steps ...string) (*node, error) {
	pointer := append(append([]byte(b.pointer), '/'), keyword...)
	for _, step := range steps {
		pointer = append(append(pointer, '/'), escapeStep(step)...)
	}
	return b.schema(value, string(pointer), b.depth+1)
}

// parts compiles the schemas that an object holds by name.
func (b *builder) parts(keyword string, value []byte, each func(key []byte, n *node) error) error {
	if err := b.expect(keyword, value, jsonscan.Object, "an object"); err != nil {
		return err
	}
	members, err := jsonscan.ReadObject(value)
	if err != nil {
		return b.fail(keyword, err.Error())
	}
	for m := range members.All() {
		n, err := b.part(m.Value, keyword, m.Name())
		if err != nil {
			return err
		}
		if err := each(m.Key, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) definitions(keyword string, value []byte) error {
	return b.parts(keyword, value, func([]byte, *node) error { return nil })
}

func (b *builder) properties(value []byte) error {
	rules := b.objects()
	return b.parts("properties", value, func(key []byte, n *node) error {
		m := rules.named(key)
		m.declared, m.node = true, n
		return nil
	})
}

func (b *builder) patternProperties(value []byte) error {
	rules := b.objects()
	return b.parts("patternProperties", value, func(key []byte, n *node) error {
		pattern, err := b.compilePattern("patternProperties", jsonscan.Unquote(key))
		rules.patterns = append(rules.patterns, patternRule{pattern, n})
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
		m := b.objects().named(name)
		if m.required {
			return b.fail("required", literalText(name)+" is given twice")
		}
		m.required = true
	}
	return nil
}

func (b *builder) additional(value []byte) (err error) {
	b.objects().additional, err = b.part(value, "additionalProperties")
	return err
}

func (b *builder) items(value []byte) (err error) {
	if jsonscan.KindOf(value) == jsonscan.Array {
		b.beyond = true // as prefixItems was called in draft-07
		return nil
	}
	b.lists().items, err = b.part(value, "items")
	return err
}

func (b *builder) prefixItems(value []byte) error {
	if b.draft07 {
		b.beyond = true
		return nil
	}
	if err := b.expect("prefixItems", value, jsonscan.Array, "an array"); err != nil {
		return err
	}
	for i, item := range elements(value) {
		n, err := b.part(item, "prefixItems", strconv.Itoa(i))
		if err != nil {
			return err
		}
		b.lists().prefix = append(b.lists().prefix, n)
	}
	return nil
}

// named returns the member that has a raw key, which it adds if it is new.
func (o *objectRules) named(key []byte) *member {
	if i := o.find(key); i >= 0 {
		return &o.members[i]
	}
	name := jsonscan.Unquote(key)
	if bytes.IndexByte(key, '\\') >= 0 {
		key = jsonscan.AppendString(nil, name)
	}
	o.members = append(o.members, member{name: name, quoted: key})
	last := len(o.members) - 1
	switch {
	case o.byName != nil:
		o.byName[name] = last
	case last == manyMembers:
		o.byName = make(map[string]int, 2*manyMembers)
		for i := range o.members {
			o.byName[o.members[i].name] = i
		}
	}
	return &o.members[last]
}

package schema

import (
	"strconv"
	"strings"

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
	var pointer strings.Builder
	pointer.WriteString(b.pointer + "/" + keyword)
	for _, step := range steps {
		pointer.WriteString("/" + escapeStep(step))
	}
	return b.schema(value, pointer.String(), b.depth+1)
}

// parts compiles the schemas that an object holds by name.
func (b *builder) parts(keyword string, value []byte, each func(name string, n *node) error) error {
	if err := b.expect(keyword, value, jsonscan.Object, "an object"); err != nil {
		return err
	}
	members, err := jsonscan.ReadObject(value)
	if err != nil {
		return b.fail(keyword, err.Error())
	}
	for m := range members.All() {
		name := m.Name()
		n, err := b.part(m.Value, keyword, name)
		if err != nil {
			return err
		}
		if err := each(name, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) definitions(keyword string, value []byte) error {
	return b.parts(keyword, value, func(string, *node) error { return nil })
}

func (b *builder) properties(value []byte) error {
	rules := b.objects()
	return b.parts("properties", value, func(name string, n *node) error {
		m := rules.named(name)
		m.declared, m.node = true, n
		return nil
	})
}

func (b *builder) patternProperties(value []byte) error {
	rules := b.objects()
	return b.parts("patternProperties", value, func(name string, n *node) error {
		pattern, err := b.compilePattern("patternProperties", name)
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
		m := b.objects().named(string(plain(name)))
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

// named returns the member of that name, which it adds if it is new.
func (o *objectRules) named(name string) *member {
	if i := o.find(jsonscan.AppendString(nil, name)); i >= 0 {
		return &o.members[i]
	}
	o.members = append(o.members, member{name: name, quoted: jsonscan.AppendString(nil, name)})
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

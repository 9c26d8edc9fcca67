package schema

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Coerce returns an instance in which values of another type than the schema's have that type, where their
// meaning is plain:
//
//   - a string that is a JSON number, where the schema has the type number or integer and not string: "42" is 42;
//   - the strings "true" and "false", where it has the type boolean and not string;
//   - any value but null, where it has the type array and not that of the value: "a" is ["a"]. The value then follows
//     the schema of the items, without a further list.
//
// It looks at the keywords type, properties, additionalProperties, patternProperties, items, prefixItems and $ref, and
// leaves a value as it is where a schema has no type. Bytes that it does not change stay as they are. It does not
// validate: an instance that is not valid JSON is returned unchanged. The error is a [*BudgetError].
func (v *Validator) Coerce(instance json.RawMessage) (json.RawMessage, error) {
	if v.root == nil {
		return instance, nil
	}
	c := coercer{normalizer{meter: v.meter(), s: jsonscan.New(instance), in: instance}}
	if err := c.value(v.root, false); err != nil {
		if _, ok := errors.AsType[*BudgetError](err); ok {
			return nil, err
		}
		return instance, nil
	}
	if c.copied == 0 {
		return instance, nil
	}
	return append(c.out, c.in[c.copied:]...), nil
}

// A coercer walks an instance as a normalizer does.
type coercer struct{ normalizer }

// value walks the next value. wrapped says that the value becomes the only item of a list, so that it is not wrapped again.
func (c *coercer) value(n *node, wrapped bool) error {
	if c.spend(valueCost); c.isEmpty() {
		return c.exceeded("")
	}
	types := typesOf(n)
	kind := c.s.Kind()
	if types&arrayType != 0 && types&kindTypes(kind) == 0 && kind != jsonscan.Null && !wrapped {
		return c.wrap(n)
	}
	switch kind {
	case jsonscan.String:
		return c.text(types)
	case jsonscan.Array:
		return c.array(n)
	case jsonscan.Object:
		return c.object(n)
	}
	_, err := c.s.Value()
	return err
}

// typesOf returns the types of a schema, or of the first schema with types that it refers to. 0 means any.
func typesOf(n *node) typeSet {
	for range maxSchemaDepth {
		if n == nil {
			break
		}
		if n.types != 0 {
			return n.types
		}
		n = n.ref
	}
	return 0
}

// kindTypes returns the types that a value of a kind can have.
func kindTypes(kind jsonscan.Kind) typeSet {
	switch kind {
	case jsonscan.Null:
		return nullType
	case jsonscan.Bool:
		return boolType
	case jsonscan.Number:
		return integerType | numberType
	case jsonscan.String:
		return stringType
	case jsonscan.Array:
		return arrayType
	case jsonscan.Object:
		return objectType
	}
	return 0
}

// text replaces a string by the number or boolean in it, if the schema has that type.
func (c *coercer) text(types typeSet) error {
	raw, err := c.s.String()
	if err != nil || types == 0 || types&stringType != 0 {
		return err
	}
	text := plain(raw)
	switch kind := jsonscan.KindOf(text); {
	case kind != jsonscan.Number && kind != jsonscan.Bool, types&kindTypes(kind) == 0,
		jsonscan.Valid(text) != nil, len(bytes.TrimSpace(text)) < len(text):
		return nil
	}
	c.copyTo(c.s.Offset() - len(raw))
	c.out = append(c.out, text...)
	c.copied = c.s.Offset()
	return nil
}

// wrap makes a list of a value.
func (c *coercer) wrap(n *node) error {
	for n.items == nil && n.prefixItems == nil && n.ref != nil {
		n = n.ref
	}
	start := c.s.Offset()
	start = len(c.in) - len(bytes.TrimLeft(c.in[start:], " \t\r\n"))
	c.copyTo(start)
	c.out = append(c.out, '[')
	if err := c.add(2); err != nil {
		return err
	}
	if err := c.value(n.item(0), true); err != nil {
		return err
	}
	c.copyTo(c.s.Offset())
	c.out = append(c.out, ']')
	return nil
}

func (c *coercer) array(n *node) error {
	for n != nil && n.items == nil && n.prefixItems == nil {
		n = n.ref
	}
	if n == nil {
		_, err := c.s.Value()
		return err
	}
	if err := c.s.EnterArray(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if ok, err := c.s.Element(i == 0); err != nil || !ok {
			return err
		}
		if err := c.value(n.item(i), false); err != nil {
			return err
		}
	}
}

func (c *coercer) object(n *node) error {
	if err := c.s.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := c.s.Member(first)
		if err != nil || !ok {
			return err
		}
		if err := c.value(c.memberNode(n, key), false); err != nil {
			return err
		}
	}
}

package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
)

// DecoderOptions are the options of [NewDecoder]. The zero value and nil mean the schema of [For].
type DecoderOptions struct {
	// Schema replaces the schema of the type. The values that it accepts must fit the type.
	Schema json.RawMessage
	// RequiredByTag makes only those fields of structs required that say so in a tag: jsonschema:"required", or
	// validate:"required" or binding:"required", which other libraries read. It holds for nested structs too.
	// Default: a field is required unless [ForType] says otherwise. It has no effect with Schema.
	RequiredByTag bool
	// Resources are the other documents that Schema may refer to, as in [CompileOptions].
	Resources map[string]json.RawMessage
	// MaxWork and Memory limit the work for one instance, and the memory for several, as in
	// [CompileOptions].
	MaxWork int64
	Memory  *Memory
}

// A Decoder validates JSON and decodes it into values of T. It is immutable and safe for
// concurrent use.
type Decoder[T any] struct{ decoder *TypeDecoder }

// NewDecoder returns the decoder of T. The error is a [*TypeError], or a [*CompileError], which also
// reports a default that its own schema does not accept.
func NewDecoder[T any](opts *DecoderOptions) (*Decoder[T], error) {
	decoder, err := NewTypeDecoder(reflect.TypeFor[T](), opts)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{decoder}, nil
}

// Schema returns the schema. The caller must not change it.
func (d *Decoder[T]) Schema() json.RawMessage { return d.decoder.schema }

// WithMemory returns a copy of the decoder that shares m with others.
func (d *Decoder[T]) WithMemory(m *Memory) *Decoder[T] {
	return &Decoder[T]{d.decoder.WithMemory(m)}
}

// Decode decodes JSON text. Absent members with a default in the schema get it. Then the text is
// validated and decoded by the rules of github.com/go-json-experiment/json: names match in exact
// case, and integers keep all their digits. Integers may be written 10.0 or 1e1. If T is a struct
// or a map, empty text and null are read as {}. null for a member that is not required, and whose schema
// does not accept null, is read as if the member were absent; a [Validator] refuses it.
//
// A [*ValidationError] also reports the values that validation accepts and T does not, such as a wrong
// date-time, wrong base64 and an integer of more than 64 bits. To find all, up to 32, a text
// of at most 64 KiB is decoded several times, with the methods of the types in it. Of a larger text, the
// first such value is reported, if validation finds no other violation.
//
// Decode blocks while other validations use the memory that a large text needs; see [Memory]. The error
// is a [*ValidationError], a [*BudgetError], or the cause of the end of ctx.
func (d *Decoder[T]) Decode(ctx context.Context, raw json.RawMessage) (T, error) {
	var value T
	if err := d.decoder.Decode(ctx, raw, &value); err != nil {
		var zero T
		return zero, err
	}
	return value, nil
}

// A TypeDecoder is a [Decoder] for a type that is known only at run time. It is immutable and safe
// for concurrent use.
type TypeDecoder struct {
	schema     json.RawMessage
	validator  *Validator
	isObject   bool // empty text and null are read as {}
	memberless bool // see isMemberless
}

// NewTypeDecoder returns the decoder of a type; errors are as of [NewDecoder].
func NewTypeDecoder(of reflect.Type, opts *DecoderOptions) (*TypeDecoder, error) {
	if opts == nil {
		opts = &DecoderOptions{}
	}
	d := &TypeDecoder{schema: opts.Schema}
	if d.schema == nil {
		schema, err := forType(of, mode{requiredByTag: opts.RequiredByTag})
		if err != nil {
			return nil, err
		}
		d.schema = schema
	}
	validator, err := Compile(d.schema, &CompileOptions{Resources: opts.Resources, MaxWork: opts.MaxWork, Memory: opts.Memory})
	if err != nil {
		return nil, err
	}
	if err := validator.checkDefaults(); err != nil {
		return nil, err
	}
	d.validator = validator
	d.memberless = isMemberless(of)
	if root := validator.root; root != nil && root.types != 0 {
		d.isObject = root.types == objectType
	} else {
		kind := deref(of).Kind()
		d.isObject = kind == reflect.Struct || kind == reflect.Map
	}
	return d, nil
}

// Schema returns the schema. The caller must not change it.
func (d *TypeDecoder) Schema() json.RawMessage { return d.schema }

// WithMemory returns a copy of the decoder that shares m with others.
func (d *TypeDecoder) WithMemory(m *Memory) *TypeDecoder {
	with := *d
	with.validator = d.validator.WithMemory(m)
	return &with
}

// Decode decodes JSON text into the value that into points to, which must be of the decoder's type.
// It follows the rules of [Decoder.Decode]. After an error the value is undefined.
func (d *TypeDecoder) Decode(ctx context.Context, raw json.RawMessage, into any) error {
	if d.isObject && isAbsent(raw) {
		raw = json.RawMessage("{}")
	}
	prepared, err := d.validator.prepare(ctx, raw)
	if err != nil {
		return d.withMisfits(err, raw, into)
	}
	if d.memberless {
		return nil
	}
	if err := jsonvalue.Unmarshal(prepared, into); err != nil {
		return d.withMisfits(&ValidationError{Violations: []Violation{misfit(prepared, err)}}, prepared, into)
	}
	return nil
}

// isMemberless reports whether a struct has no fields to decode into, such as one with only an
// annotation. The JSON library refuses these structs.
func isMemberless(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if f.IsExported() || f.Anonymous {
			return false
		}
	}
	return true
}

// Decode decodes one JSON text as [Decoder.Decode] does. It reflects the type and compiles the schema
// each time; use a [Decoder] to decode several texts. The error may also be a [*TypeError].
func Decode[T any](ctx context.Context, raw json.RawMessage) (T, error) {
	d, err := NewDecoder[T](nil)
	if err != nil {
		var zero T
		return zero, err
	}
	return d.Decode(ctx, raw)
}

func isAbsent(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// prepare validates an instance and returns the normalized instance.
func (v *Validator) prepare(ctx context.Context, raw []byte) ([]byte, error) {
	if err := v.memory.enter(ctx, len(raw)); err != nil {
		return nil, err
	}
	defer v.memory.leave(len(raw))
	if v.general != nil {
		if v.root != nil {
			var err error
			if raw, err = normalize(v.root, raw, v.meter()); err != nil {
				return nil, err
			}
		}
		return raw, v.general.validate(ctx, raw, v.meter(), v.memory)
	}
	size, err := v.reserve(ctx, raw)
	if err != nil {
		return nil, err
	}
	defer v.memory.release(size)
	w := newWalker(raw, v.meter())
	w.decoding = true
	if err = w.instance(v.root); err != nil && w.refusedNull {
		// The null may be the value of an optional member.
		if raw, err = normalize(v.root, raw, w.meter); err != nil {
			return nil, err
		}
		w = newWalker(raw, w.meter)
		w.decoding = true
		err = w.instance(v.root)
	}
	if err != nil {
		return nil, err
	}
	if w.needsNormalize {
		return normalize(v.root, raw, w.meter)
	}
	return raw, nil
}

// normalize returns the instance without null for optional members whose schema does not accept it, with
// defaults for absent members, and with plain digits for integers such as 1e1 where the schema has the
// type integer. It returns an instance unchanged, for validation to refuse, if that is not valid JSON or
// has an optional member twice. The error is a [*BudgetError].
func normalize(n *node, instance []byte, m meter) ([]byte, error) {
	z := normalizer{meter: m, s: jsonscan.New(instance), in: instance, out: make([]byte, 0, len(instance)+64)}
	if err := z.value(n); err != nil {
		if _, ok := errors.AsType[*BudgetError](err); ok {
			return nil, err
		}
		return instance, nil
	}
	return append(z.out, z.in[z.copied:]...), nil
}

type normalizer struct {
	meter
	added  int // bytes of defaults, and of digits that replace exponents
	s      jsonscan.Scanner
	in     []byte
	copied int // the offset up to which out has the bytes of in
	out    []byte
}

func (z *normalizer) copyTo(end int) {
	z.out = append(z.out, z.in[z.copied:end]...)
	z.copied = end
}

func (z *normalizer) value(n *node) error {
	if z.spend(valueCost); z.isEmpty() {
		return z.exceeded("")
	}
	if n != nil {
		switch z.s.Kind() {
		case jsonscan.Number:
			return z.number(n)
		case jsonscan.Array:
			return z.array(n)
		case jsonscan.Object:
			return z.object(n)
		}
	}
	_, err := z.s.Value()
	return err
}

func (z *normalizer) number(n *node) error {
	text, err := z.s.Number()
	if err != nil || isPlain(text) {
		return err
	}
	for n.types&integerType == 0 {
		if n = n.ref; n == nil {
			return nil
		}
	}
	z.spendNumber(text)
	if value, ok := parseNumber(text); ok && value.isInteger() {
		z.copyTo(z.s.Offset() - len(text))
		before := len(z.out)
		z.out = value.append(z.out)
		z.copied = z.s.Offset()
		return z.add(len(z.out) - before - len(text))
	}
	return nil
}

// add counts bytes that the instance does not have.
func (z *normalizer) add(n int) error {
	if z.added += max(n, 0); z.added > maxDefaults {
		return &BudgetError{Reason: fmt.Sprintf("the defaults of the value, and the digits of its integers, have more than %d bytes", maxDefaults)}
	}
	return nil
}

func (z *normalizer) array(n *node) error {
	for n.items == nil && n.prefixItems == nil {
		if n = n.ref; n == nil {
			_, err := z.s.Value()
			return err
		}
	}
	if err := z.s.EnterArray(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if ok, err := z.s.Element(i == 0); err != nil || !ok {
			return err
		}
		if err := z.value(n.item(i)); err != nil {
			return err
		}
	}
}

func (z *normalizer) object(n *node) error {
	if err := z.s.EnterObject(); err != nil {
		return err
	}
	var keys, removed [][]byte
	for {
		end := z.s.Offset() // of the previous member
		key, ok, err := z.s.Member(len(keys)+len(removed) == 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		absent := z.s.Kind() == jsonscan.Null && z.isAbsent(n, key)
		if z.isAmong(removed, key) || absent && z.isAmong(keys, key) {
			return errDuplicate
		}
		if absent {
			removed = append(removed, key)
			z.copyTo(end)
			if _, err := z.s.Value(); err != nil {
				return err
			}
			z.copied = z.s.Offset()
			continue
		}
		if len(removed) > 0 && len(keys) == 0 { // the comma before it belongs to a removed member
			z.copyTo(end)
			z.copied = z.s.KeyOffset()
		}
		keys = append(keys, key)
		if err := z.value(z.memberNode(n, key)); err != nil {
			return err
		}
	}
	z.copyTo(z.s.Offset() - 1)
	return z.addDefaults(n, keys)
}

// addDefaults adds the members of a schema that have defaults to an object with these keys.
func (z *normalizer) addDefaults(n *node, keys [][]byte) error {
	for ; n != nil; n = n.ref {
		for i := range n.members {
			m := &n.members[i]
			if !m.hasDefault() {
				continue
			}
			if z.spend(valueCost * (1 + len(keys)/8)); z.isEmpty() {
				return z.exceeded("")
			}
			if slices.ContainsFunc(keys, func(key []byte) bool { return jsonscan.KeyIs(key, m.name) }) {
				continue
			}
			key, value := jsonscan.AppendString(nil, m.name), m.node.defaultValue()
			if err := z.add(len(key) + len(value)); err != nil {
				return err
			}
			if len(keys) > 0 {
				z.out = append(z.out, ',')
			}
			z.out = append(append(append(z.out, key...), ':'), value...)
			keys = append(keys, key)
		}
	}
	return nil
}

var errDuplicate = errors.New("schema: an optional member is given twice")

// isAmong reports whether a raw key is in a list.
func (z *normalizer) isAmong(keys [][]byte, key []byte) bool {
	if len(keys) == 0 {
		return false
	}
	z.spend(valueCost * (1 + len(keys)/8))
	text := plain(key)
	return slices.ContainsFunc(keys, func(other []byte) bool { return bytes.Equal(plain(other), text) })
}

// isAbsent reports whether null for a member means that the member is absent: it is optional in n and
// in the schemas that n refers to, and its schema does not accept null.
func (z *normalizer) isAbsent(n *node, key []byte) bool {
	refuses := false
	for ; n != nil && !z.isEmpty(); n = n.ref {
		z.spend(valueCost)
		i := n.find(key)
		switch {
		case i < 0:
		case n.members[i].required:
			return false
		case n.members[i].declared:
			refuses = refuses || n.members[i].node.refusesNull()
		}
	}
	return refuses
}

// memberNode returns the schema of a member in n or in the schemas that n refers to.
func (z *normalizer) memberNode(n *node, key []byte) *node {
	for ; n != nil && !z.isEmpty(); n = n.ref {
		z.spend(valueCost)
		if i := n.find(key); i >= 0 && n.members[i].declared {
			return n.members[i].node
		}
		for _, p := range n.patternProperties {
			if z.spend(matchCost(p.pattern, len(key))); z.isEmpty() {
				return nil
			}
			if p.pattern.Match(plain(key)) {
				return p.node
			}
		}
		if n.additionalProperties != nil {
			return n.additionalProperties
		}
	}
	return nil
}

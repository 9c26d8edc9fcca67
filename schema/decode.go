package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/codec"
)

// DecoderOptions are the options of [NewDecoder]. The zero value and nil mean
// the schema that [For] gives.
type DecoderOptions struct {
	// Schema is used instead of the schema of the type. What it accepts must
	// fit the type.
	Schema json.RawMessage
	// Resources are the other documents that Schema may refer to; see
	// [CompileOptions].
	Resources map[string]json.RawMessage
	// MaxWork is the work that validating one instance may take; see
	// [CompileOptions].
	MaxWork int64
}

// A Decoder turns JSON into values of T that its schema accepts. It is
// immutable and may be used by any number of goroutines at once.
type Decoder[T any] struct{ of *TypeDecoder }

// NewDecoder makes the decoder of T. The error is a [*TypeError] or a
// [*CompileError]; a default that its own schema refuses is among the latter.
func NewDecoder[T any](opts *DecoderOptions) (*Decoder[T], error) {
	of, err := NewTypeDecoder(reflect.TypeFor[T](), opts)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{of}, nil
}

// Schema returns the schema. It must not be changed.
func (d *Decoder[T]) Schema() json.RawMessage { return d.of.schema }

// Decode takes JSON text to a value. Members that are absent and have a default
// in the schema get it; then all is validated, and decoded once, by the rules
// of github.com/go-json-experiment/json: names match in exact case, and
// integers keep all their digits. Integers may be written 10.0 or 1e1. An
// absent text and null count as an object without members, if the schema wants
// an object.
//
// The error is a [*ValidationError] or a [*BudgetError].
func (d *Decoder[T]) Decode(raw json.RawMessage) (T, error) {
	var value T
	if err := d.of.Decode(raw, &value); err != nil {
		var zero T
		return zero, err
	}
	return value, nil
}

// A TypeDecoder is a [Decoder] of a type that is known only when the program runs.
type TypeDecoder struct {
	schema     json.RawMessage
	validator  *Validator
	object     bool // an absent instance counts as an object without members
	memberless bool // there is nothing in the type to decode into
	codec      *codec.Codec
}

// NewTypeDecoder makes the decoder of a type, as [NewDecoder] does.
func NewTypeDecoder(of reflect.Type, opts *DecoderOptions) (*TypeDecoder, error) {
	if opts == nil {
		opts = &DecoderOptions{}
	}
	d := &TypeDecoder{schema: opts.Schema}
	if d.schema == nil {
		schema, err := ForType(of)
		if err != nil {
			return nil, err
		}
		d.schema = schema
	}
	validator, err := Compile(d.schema, &CompileOptions{Resources: opts.Resources, MaxWork: opts.MaxWork})
	if err != nil {
		return nil, err
	}
	if err := validator.checkDefaults(); err != nil {
		return nil, err
	}
	d.validator = validator
	d.memberless = isMemberless(of)
	d.codec = codec.For(of)
	if root := validator.root; root != nil && root.types != 0 {
		d.object = root.types == objectType
	} else {
		kind := deref(of).Kind()
		d.object = kind == reflect.Struct || kind == reflect.Map
	}
	return d, nil
}

// Schema returns the schema. It must not be changed.
func (d *TypeDecoder) Schema() json.RawMessage { return d.schema }

// Decode takes JSON text to the value that into points to, which must be of the
// decoder's type; see [Decoder.Decode]. After an error the value is of no use.
func (d *TypeDecoder) Decode(raw json.RawMessage, into any) error {
	if d.object && isAbsent(raw) {
		raw = json.RawMessage("{}")
	}
	raw, err := d.validator.prepare(raw)
	if err != nil {
		return err
	}
	if d.memberless || d.codec.Decode(raw, into) {
		return nil
	}
	if err := jsonv2.Unmarshal(raw, into, decoding); err != nil {
		return decodeError(raw, err)
	}
	return nil
}

// isMemberless tells a struct that has fields, and none to decode into, which the
// library refuses: one that only carries an annotation, say.
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

// Decode is [Decoder.Decode] for once: it reflects and compiles each time. Keep
// a [Decoder] where more is to be decoded. A T without a schema is a
// [*TypeError].
func Decode[T any](raw json.RawMessage) (T, error) {
	d, err := NewDecoder[T](nil)
	if err != nil {
		var zero T
		return zero, err
	}
	return d.Decode(raw)
}

// decoding leaves out the search for members given twice, which validating has
// done.
var decoding = jsontext.AllowDuplicateNames(true)

func isAbsent(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// prepare validates an instance, and returns it with defaults filled in and
// integers in plain digits.
func (v *Validator) prepare(raw []byte) ([]byte, error) {
	if v.general != nil {
		if v.root != nil {
			var err error
			if raw, err = repair(v.root, raw, v.meter()); err != nil {
				return nil, err
			}
		}
		return raw, v.general.validate(raw, v.meter())
	}
	w := newWalk(raw, v.meter())
	w.decoding = true
	if err := w.instance(v.root); err != nil {
		return nil, err
	}
	if w.rewrite {
		return repair(v.root, raw, w.meter)
	}
	return raw, nil
}

// decodeError tells in the words of a violation what validating could not see,
// such as an integer beyond 64 bits.
func decodeError(raw []byte, err error) error {
	v := Violation{Keyword: "decode", Expected: "a value that can be decoded", Got: err.Error()}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		v.Pointer = string(semantic.JSONPointer)
		v.Got = literalText(valueAt(raw, v.Pointer))
		if semantic.GoType != nil {
			v.Expected = "a value for the Go type " + semantic.GoType.String()
			switch {
			case semantic.GoType == reflect.TypeFor[time.Time]():
				v.Expected = "a date-time as in RFC 3339"
			case isNumber(semantic.GoType):
				v.Expected = "a number in the range of " + semantic.GoType.Kind().String()
			}
		}
	}
	return &ValidationError{Violations: []Violation{v}}
}

package codec

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Codec encodes and decodes values of one type. It inspects the type when it is first used, and
// is safe for concurrent use. The codec of a type that is not plain handles no value, nor does nil.
type Codec struct {
	typ  reflect.Type
	once sync.Once
	form *form // nil if the type is not plain
}

// For returns the codec of a type. For a pointer type it is the codec of the type pointed to.
func For(t reflect.Type) *Codec {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return &Codec{typ: t}
}

// formOf returns the form of a value, nil if the value is of another type or the type is not plain.
func (c *Codec) formOf(v reflect.Value) *form {
	if c == nil || !v.IsValid() || v.Type() != c.typ {
		return nil
	}
	c.once.Do(func() { c.form = newForm(c.typ) })
	return c.form
}

// A form describes the JSON of a plain type.
type form struct {
	typ    reflect.Type
	kind   reflect.Kind
	fields []field // of a struct
}

// A field is a member of an object.
type field struct {
	*form
	index     int
	key       string // as written in JSON, with quotes and colon
	omitEmpty bool
	omitZero  bool
}

// newForm returns nil if the type is not plain.
func newForm(t reflect.Type) *form {
	if isSpecial(t) {
		return nil
	}
	f := &form{typ: t, kind: t.Kind()}
	switch f.kind {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return f
	case reflect.Struct:
		if f.addFields() {
			return f
		}
	}
	return nil
}

// isSpecial reports whether the JSON of a type does not follow from its kind.
func isSpecial(t reflect.Type) bool {
	return t == reflect.TypeFor[json.Number]() ||
		has[json.Marshaler](t) || has[json.Unmarshaler](t) ||
		has[interface{ MarshalJSONTo(*jsontext.Encoder) error }](t) ||
		has[interface {
			UnmarshalJSONFrom(*jsontext.Decoder) error
		}](t) ||
		has[encoding.TextMarshaler](t) || has[encoding.TextAppender](t) || has[encoding.TextUnmarshaler](t)
}

// has reports whether t or a pointer to it implements I.
func has[I any](t reflect.Type) bool { return reflect.PointerTo(t).Implements(reflect.TypeFor[I]()) }

// maxFields is the largest number of fields of a plain struct: readStruct keeps a bit for each in
// one word.
const maxFields = 64

// addFields adds the fields of a struct. It returns false if the struct is not plain.
func (f *form) addFields() bool {
	keys := make(map[string]bool, f.typ.NumField())
	for sf := range f.typ.Fields() {
		tag, tagged := sf.Tag.Lookup("json")
		switch {
		case tag == "-", !sf.IsExported() && !sf.Anonymous && !tagged:
			continue
		case !sf.IsExported(), sf.Anonymous:
			return false
		}
		member, plain := newField(sf, tag)
		if !plain || keys[member.key] || len(f.fields) == maxFields {
			return false
		}
		keys[member.key] = true
		f.fields = append(f.fields, member)
	}
	return len(f.fields) > 0
}

func newField(sf reflect.StructField, tag string) (f field, plain bool) {
	name, options, more := strings.Cut(tag, ",")
	if name == "" {
		name = sf.Name
	}
	f = field{form: newForm(sf.Type), index: sf.Index[0], key: `"` + name + `":`}
	for more {
		var option string
		switch option, options, more = strings.Cut(options, ","); {
		case option == "omitempty" && !f.omitEmpty:
			f.omitEmpty = true
		case option == "omitzero" && !f.omitZero && !has[interface{ IsZero() bool }](sf.Type):
			f.omitZero = true
		default:
			return f, false
		}
	}
	return f, f.form != nil && strings.Trim(name, plainLetters) == ""
}

// plainLetters are the characters of names that need no escapes in JSON and no quotes in a tag.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// Decode decodes JSON text into the value that into points to, as json.Unmarshal does. It returns
// false for everything unusual, such as an error, an unknown member or null. Then the value is
// incomplete, and the caller decodes the whole text with the library.
func (c *Codec) Decode(text []byte, into any) bool {
	v := reflect.ValueOf(into).Elem()
	f := c.formOf(v)
	if f == nil {
		return false
	}
	s := jsonscan.New(text)
	return f.read(&s, v) && s.End() == nil
}

func (f *form) read(s *jsonscan.Scanner, v reflect.Value) bool {
	switch f.kind {
	case reflect.Struct:
		return f.readStruct(s, v)
	case reflect.String:
		raw, err := s.String()
		if err == nil {
			v.SetString(jsonscan.Unquote(raw))
		}
		return err == nil
	case reflect.Bool:
		if s.Kind() != jsonscan.Bool {
			return false
		}
		raw, err := s.Value()
		if err == nil {
			v.SetBool(raw[0] == 't')
		}
		return err == nil
	}
	raw, err := s.Number()
	return err == nil && f.setNumber(v, raw)
}

func (f *form) setNumber(v reflect.Value, raw []byte) bool {
	var err error
	switch bits := f.typ.Bits(); f.kind {
	case reflect.Float32, reflect.Float64:
		var n float64
		n, err = strconv.ParseFloat(string(raw), bits)
		v.SetFloat(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(string(raw), 10, bits)
		v.SetUint(n)
	default:
		var n int64
		n, err = strconv.ParseInt(string(raw), 10, bits)
		v.SetInt(n)
	}
	return err == nil
}

func (f *form) readStruct(s *jsonscan.Scanner, v reflect.Value) bool {
	if s.EnterObject() != nil {
		return false
	}
	var seen uint64
	i := -1
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		if err != nil || !more {
			return err == nil
		}
		i = f.find(key, i+1)
		if i < 0 || seen>>i&1 != 0 {
			return false
		}
		seen |= 1 << i
		member := &f.fields[i]
		if !member.read(s, v.Field(member.index)) {
			return false
		}
	}
}

// find returns the index of the field with a key, or -1. It looks at the likely index first.
func (f *form) find(key []byte, likely int) int {
	if likely < len(f.fields) && f.fields[likely].is(key) {
		return likely
	}
	for i := range f.fields {
		if f.fields[i].is(key) {
			return i
		}
	}
	return -1
}

func (f *field) is(key []byte) bool { return string(key) == f.key[:len(f.key)-len(":")] }

// Append appends the JSON of a value, or of the value it points to, as json.Marshal writes it with
// the omitempty of encoding/json. For everything unusual, such as text that is not UTF-8, it
// returns dst and false. Then the caller encodes the value with the library.
func (c *Codec) Append(dst []byte, value any) ([]byte, bool) {
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	f := c.formOf(v)
	if f == nil {
		return dst, false
	}
	text, ok := f.append(slices.Grow(dst, f.size(v)), v)
	if !ok {
		return dst, false
	}
	return text, true
}

// size estimates the length of a value in JSON.
func (f *form) size(v reflect.Value) int {
	switch f.kind {
	case reflect.String:
		return len(`""`) + v.Len() + v.Len()/8 // for escapes
	case reflect.Struct:
		size := len(`{}`)
		for i := range f.fields {
			member := &f.fields[i]
			size += len(member.key) + len(`,`) + member.size(v.Field(member.index))
		}
		return size
	}
	return len("-1234567890123456789")
}

func (f *form) append(dst []byte, v reflect.Value) ([]byte, bool) {
	switch f.kind {
	case reflect.Struct:
		return f.appendStruct(dst, v)
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return dst, false
		}
		return jsonscan.AppendString(dst, v.String()), true
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), true
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, v.Float(), f.typ.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10), true
	default:
		return strconv.AppendInt(dst, v.Int(), 10), true
	}
}

func (f *form) appendStruct(dst []byte, v reflect.Value) (_ []byte, ok bool) {
	dst = append(dst, '{')
	empty := true
	for i := range f.fields {
		member := &f.fields[i]
		value := v.Field(member.index)
		if member.omits(value) {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		if dst, ok = member.append(append(dst, member.key...), value); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// omits reports whether a value is omitted. A struct is never empty.
func (f *field) omits(v reflect.Value) bool {
	return (f.omitZero || f.omitEmpty && f.kind != reflect.Struct) && v.IsZero()
}

// appendFloat appends a number as ECMAScript writes it (RFC 8785, section 3.2.2.3). It returns
// false if that form has an exponent.
func appendFloat(dst []byte, n float64, bits int) ([]byte, bool) {
	abs := math.Abs(n)
	if math.IsNaN(n) || math.IsInf(n, 0) || abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return dst, false
	}
	return strconv.AppendFloat(dst, n, 'f', -1, bits), true
}

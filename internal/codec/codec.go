package codec

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Codec is that of one type, which it looks into when it is used first. It may be used by
// any number of goroutines at once. One of a type that is not plain does nothing, nor does
// nil.
type Codec struct {
	typ  reflect.Type
	once sync.Once
	form *form // nil if the type is not plain
}

// For returns the codec of a type, or of what it points to.
func For(t reflect.Type) *Codec {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return &Codec{typ: t}
}

// of returns the form of a value's type, nil if it is another one or not plain.
func (c *Codec) of(v reflect.Value) *form {
	if c == nil || !v.IsValid() || v.Type() != c.typ {
		return nil
	}
	c.once.Do(func() { c.form = newForm(c.typ) })
	return c.form
}

// A form is what a plain type is in JSON.
type form struct {
	typ    reflect.Type
	kind   reflect.Kind
	fields []field // of a struct
}

// A field is a member of an object.
type field struct {
	*form
	index     int
	key       string // as it stands in JSON, with quotes and colon
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

// isSpecial tells types whose JSON is not what their kind says.
func isSpecial(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[json.Number]() ||
		has[json.Marshaler](t) || has[json.Unmarshaler](t) ||
		has[interface{ MarshalJSONTo(*jsontext.Encoder) error }](t) ||
		has[interface {
			UnmarshalJSONFrom(*jsontext.Decoder) error
		}](t) ||
		has[encoding.TextMarshaler](t) || has[encoding.TextAppender](t) || has[encoding.TextUnmarshaler](t)
}

// has says whether t or a pointer to it implements I.
func has[I any](t reflect.Type) bool { return reflect.PointerTo(t).Implements(reflect.TypeFor[I]()) }

// maxFields is how many fields a plain struct has at most: those that have come are bits
// of one word.
const maxFields = 64

// addFields says whether the struct is plain.
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

// plainLetters are those of names that need neither escapes nor quotes, anywhere.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

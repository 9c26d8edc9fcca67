package codec

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Append appends a value, or what it points to, as json.Marshal would write it with
// omitempty as encoding/json has it. It returns false, and dst as it was, if there is
// anything unusual, such as text that is not UTF-8: then the library is to write it.
func (c *Codec) Append(dst []byte, value any) ([]byte, bool) {
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	f := c.of(v)
	if f == nil {
		return dst, false
	}
	text, ok := f.append(slices.Grow(dst, f.size(v)), v)
	if !ok {
		return dst, false
	}
	return text, true
}

// size is about how long a value is in JSON.
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

// omits says whether a value is left out. No struct is empty.
func (f *field) omits(v reflect.Value) bool {
	return (f.omitZero || f.omitEmpty && f.kind != reflect.Struct) && v.IsZero()
}

// appendFloat writes a number as ECMAScript does, if that is without an exponent: RFC 8785,
// section 3.2.2.3.
func appendFloat(dst []byte, n float64, bits int) ([]byte, bool) {
	abs := math.Abs(n)
	if math.IsNaN(n) || math.IsInf(n, 0) || abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return dst, false
	}
	return strconv.AppendFloat(dst, n, 'f', -1, bits), true
}

package codec

import (
	"reflect"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Decode reads a text into the value that into points to, as json.Unmarshal would. It
// returns false if there is anything unusual, such as an error, an unknown member or null:
// then the library is to read it all, over what is in the value by now.
func (c *Codec) Decode(text []byte, into any) bool {
	v := reflect.ValueOf(into).Elem()
	f := c.of(v)
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
	place := -1
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		if err != nil || !more {
			return err == nil
		}
		place = f.find(key, place+1)
		if place < 0 || seen>>place&1 != 0 {
			return false
		}
		seen |= 1 << place
		member := &f.fields[place]
		if !member.read(s, v.Field(member.index)) {
			return false
		}
	}
}

// find returns the place of the field with that key, which is likely the one given; -1
// when there is none.
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

package schema

import (
	"net/url"
	"reflect"
	"time"
)

// An inspection walks a type before it is reflected, to find what has no
// schema while the path to it is known, and to learn the shape of structs.
type inspection struct {
	written bool // what is described is written, not read
	structs map[reflect.Type]*structShape
	met     map[reflect.Type]bool // since types may contain themselves
}

func (in *inspection) inspect(t reflect.Type, path string) error {
	t = deref(t)
	if in.met[t] {
		return nil
	}
	in.met[t] = true
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &TypeError{Path: path, Reason: "time.Duration has no JSON form of its own: use a number of seconds or a type with text methods"}
	case reflect.TypeFor[url.URL]():
		return &TypeError{Path: path, Reason: "url.URL has no JSON form of its own: use a string with format=uri"}
	}
	if describesItself(t) {
		return checkOwnSchema(t, path)
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return in.inspect(t.Elem(), path+"[]")
	case reflect.Map:
		if keyPattern(t.Key()) == "" && t.Key().Kind() != reflect.String && !hasText(t.Key()) {
			return &TypeError{Path: path, Reason: "keys of a JSON object are strings, integers or types with text methods, not " + t.Key().String()}
		}
		return in.inspect(t.Elem(), path+"[]")
	case reflect.Struct:
		return in.inspectStruct(t, path)
	case reflect.Interface:
		if t.NumMethod() > 0 && !in.written {
			return &TypeError{Path: path, Reason: "nothing can be read into " + t.String() + ", an interface with methods"}
		}
		return nil
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64, reflect.Int, reflect.Int64:
		return nil
	}
	return &TypeError{Path: path, Reason: "the type " + t.String() + " has no JSON form"}
}

func (in *inspection) inspectStruct(t reflect.Type, path string) error {
	shape, err := in.shapeOf(t, path)
	if err != nil {
		return err
	}
	in.structs[t] = shape
	for i := range shape.fields {
		if err := in.inspect(shape.fields[i].typ, shape.fields[i].path); err != nil {
			return err
		}
	}
	if shape.others == nil {
		return nil
	}
	return in.inspect(shape.others, path+"[]")
}

// keyPattern returns the pattern that the keys of a map with integer keys
// follow, or "" for other keys.
func keyPattern(key reflect.Type) string {
	if hasText(key) {
		return ""
	}
	switch key.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "^-?(0|[1-9][0-9]*)$"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "^(0|[1-9][0-9]*)$"
	}
	return ""
}

// typePath is how messages begin that are about t.
func typePath(t reflect.Type) string {
	if t.Name() == "" {
		return t.Kind().String()
	}
	return shortName(t)
}

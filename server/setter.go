package server

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// setterOf returns what puts strings into a value of the type.
func setterOf(t reflect.Type) (func(reflect.Value, []string) error, error) {
	if t.Kind() == reflect.Pointer {
		set, err := setterOf(t.Elem())
		if err != nil {
			return nil, err
		}
		return func(v reflect.Value, values []string) error {
			v.Set(reflect.New(t.Elem()))
			return set(v.Elem(), values)
		}, nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return single(func(v reflect.Value, s string) error {
			return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
		}), nil
	}
	switch t.Kind() {
	case reflect.String:
		return single(func(v reflect.Value, s string) error { v.SetString(s); return nil }), nil
	case reflect.Bool:
		return single(setBool), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return single(setInt), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return single(setUint), nil
	case reflect.Float32, reflect.Float64:
		return single(setFloat), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return func(v reflect.Value, values []string) error {
				v.Set(reflect.ValueOf(values).Convert(t))
				return nil
			}, nil
		}
	}
	return nil, fmt.Errorf("%v cannot hold a string's value", t)
}

func single(set func(reflect.Value, string) error) func(reflect.Value, []string) error {
	return func(v reflect.Value, values []string) error { return set(v, strings.Join(values, ",")) }
}

func setBool(v reflect.Value, s string) error {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		v.SetBool(true)
	case "false", "no", "off", "0":
		v.SetBool(false)
	default:
		return fmt.Errorf("true or false, got %.80q", s)
	}
	return nil
}

func setInt(v reflect.Value, s string) error {
	n, err := strconv.ParseInt(s, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("an integer of %d bits, got %.80q", v.Type().Bits(), s)
	}
	v.SetInt(n)
	return nil
}

func setUint(v reflect.Value, s string) error {
	n, err := strconv.ParseUint(s, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("an integer of %d bits, not negative, got %.80q", v.Type().Bits(), s)
	}
	v.SetUint(n)
	return nil
}

func setFloat(v reflect.Value, s string) error {
	n, err := strconv.ParseFloat(s, v.Type().Bits())
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.ContainsAny(s, "_xX") { // Go's own forms
		return fmt.Errorf("a number, got %.80q", s)
	}
	v.SetFloat(n)
	return nil
}

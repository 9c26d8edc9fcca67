package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonvalue"
)

const (
	// maxRepeated is the size of the largest text that is decoded again to find further violations.
	maxRepeated = 64 << 10
	maxReason   = 256 // bytes of the error of a method
)

// withMisfits adds the values that the Go type of into does not accept to the error of validating raw.
func (d *TypeDecoder) withMisfits(err error, raw []byte, into any) error {
	invalid, ok := errors.AsType[*ValidationError](err)
	if !ok || d.memberless || len(raw) > maxRepeated || len(invalid.Violations) == maxViolations {
		return err
	}
	switch invalid.Violations[0].Keyword {
	case "syntax", "undescribed":
		return err
	}
	if v := d.validator; v.root != nil {
		var normalizeErr error
		if raw, normalizeErr = normalize(v.root, raw, v.meter()); normalizeErr != nil {
			return err
		}
	}
	all := slices.Clip(invalid.Violations)
	for _, v := range misfits(raw, into, maxViolations) {
		if len(all) < maxViolations && !slices.ContainsFunc(invalid.Violations, func(other Violation) bool { return other.Pointer == v.Pointer && other.Keyword != "required" }) {
			all = append(all, v)
		}
	}
	return &ValidationError{Violations: all}
}

// misfits returns at most limit violations for values that the Go type of into does not accept. It decodes
// the text once for each, since the library stops at the first; it skips the values that it has found.
func misfits(raw []byte, into any, limit int) []Violation {
	type position struct {
		depth  int
		offset int64 // before the value
	}
	var found []Violation
	var path []position // of the value or key that the library has begun to decode last
	skipped := map[int64]bool{}
	skip := func(dec *jsontext.Decoder, _ any) error {
		at := position{dec.StackDepth(), dec.InputOffset()}
		path = append(slices.DeleteFunc(path, func(p position) bool { return p.depth >= at.depth }), at)
		if skipped[at.offset] {
			return dec.SkipValue()
		}
		return errors.ErrUnsupported
	}
	for range 2 * limit {
		err := jsonvalue.UnmarshalFrom(raw, reflect.New(reflect.TypeOf(into).Elem()).Interface(), skip)
		if err == nil {
			break
		}
		if v := misfit(raw, err); !slices.ContainsFunc(found, v.same) {
			found = append(found, v)
		}
		// The misfit is the last value or, if that is skipped already, the array around it.
		for len(path) > 0 && skipped[path[len(path)-1].offset] {
			path = path[:len(path)-1]
		}
		if len(found) == limit || len(path) == 0 {
			break
		}
		skipped[path[len(path)-1].offset] = true
	}
	return found
}

// misfit returns the violation for an error of the JSON library.
func misfit(raw []byte, err error) Violation {
	v := Violation{Keyword: "decode", Expected: "a value that can be decoded"}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		v.Pointer = cutAt(string(semantic.JSONPointer), maxPath)
		if v.Got = literalText(semantic.JSONValue); v.Got == "" { // it has the value of a key, too
			v.Got = literalText(valueAt(raw, semantic.JSONPointer.Tokens()))
		}
		v.Expected = expectedBy(semantic.GoType, semantic.Err)
	}
	return v
}

// expectedBy describes the JSON that a type accepts. err is the error of a method of the type, if it has
// returned one.
func expectedBy(t reflect.Type, err error) string {
	if t == nil {
		return "a value that can be decoded"
	}
	t = deref(t)
	if t == reflect.TypeFor[time.Time]() {
		return "a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z"
	}
	if t == reflect.TypeFor[url.URL]() {
		return "a URL"
	}
	if t == reflect.TypeFor[json.Number]() {
		return "a number"
	}
	if s, _ := primitiveSchema(t); s != nil && s.ContentEncoding == "base64" {
		if t.Kind() == reflect.Array {
			return fmt.Sprintf("%s in base64 (RFC 4648)", plural(t.Len(), "byte"))
		}
		return "text in base64 (RFC 4648)"
	}
	if has[json.Unmarshaler](t) || has[jsonv2.UnmarshalerFrom](t) || hasText(t) {
		return "a valid value" + reasonOf(t, err)
	}
	switch kind := t.Kind(); kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		return "an array"
	case reflect.Array:
		return "an array of " + plural(t.Len(), "item")
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32:
		return fmt.Sprintf("a number from %v to %v", -math.MaxFloat32, math.MaxFloat32)
	case reflect.Float64:
		return fmt.Sprintf("a number from %v to %v", -math.MaxFloat64, math.MaxFloat64)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		least := int64(math.MinInt64) >> (64 - t.Bits())
		return fmt.Sprintf("an integer from %d to %d", least, ^least)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "an integer from 0 to " + strconv.FormatUint(math.MaxUint64>>(64-t.Bits()), 10)
	}
	return "a value that can be decoded"
}

// reasonOf returns the error of a method of the type t in parentheses. It returns "" for an error with the
// name of the type, which means nothing to a model.
func reasonOf(t reflect.Type, err error) string {
	switch err := err.(type) {
	case nil:
		return ""
	case *jsonv2.SemanticError:
		return " (" + expectedBy(err.GoType, err.Err) + ")"
	case *json.UnmarshalTypeError:
		return " (" + expectedBy(err.Type, nil) + ")"
	}
	text := strings.ToValidUTF8(err.Error(), "�")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if text == "" || strings.Contains(text, t.String()) {
		return ""
	}
	return " (" + cutAt(text, maxReason) + ")"
}

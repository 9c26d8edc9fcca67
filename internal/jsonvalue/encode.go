package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// encodeOptions sort keys, and replace text that is not UTF-8 with U+FFFD.
var encodeOptions = jsonv2.JoinOptions(
	jsonv2.Deterministic(true),
	jsontext.AllowInvalidUTF8(true),
	jsonv1.OmitEmptyWithLegacySemantics(true),
	jsonv1.FormatDurationAsNano(true),
	jsonv2.WithMarshalers(jsonv2.JoinMarshalers(
		jsonv2.MarshalToFunc(encodeNumber),
		jsonv2.MarshalToFunc(func(enc *jsontext.Encoder, u url.URL) error {
			return enc.WriteToken(jsontext.String(u.String()))
		}),
		jsonv2.MarshalToFunc(checkPointers),
	)),
)

// Marshal returns the JSON of a value. The error says which part of the value has no JSON.
func Marshal(value any) (json.RawMessage, error) {
	if err := checkType(value); err != nil {
		return nil, err
	}
	raw, err := jsonv2.Marshal(value, encodeOptions)
	if err != nil && errors.Is(err, jsontext.ErrDuplicateName) {
		raw, err = marshalUnique(value)
	}
	return raw, err
}

// Append appends the JSON of a value to dst. After an error it returns dst, whose further capacity is overwritten.
func Append(dst []byte, value any) ([]byte, error) {
	if err := checkType(value); err != nil {
		return dst, err
	}
	buf := bytes.NewBuffer(dst)
	err := jsonv2.MarshalWrite(buf, value, encodeOptions)
	if err == nil {
		return buf.Bytes(), nil
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		var raw []byte
		if raw, err = marshalUnique(value); err == nil {
			return append(dst, raw...), nil
		}
	}
	return dst, err
}

// marshalUnique returns the JSON of a value with keys that become equal, such as two that are not UTF-8. Of such
// keys it keeps the last.
func marshalUnique(value any) ([]byte, error) {
	raw, err := jsonv2.Marshal(value, encodeOptions, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, err
	}
	var unique any
	if err := Unmarshal(raw, &unique); err != nil {
		return nil, err
	}
	return jsonv2.Marshal(unique, encodeOptions)
}

// maxPointers is the number of pointers that lead to a value.
const maxPointers = 1000

var errCycle = errors.New("a pointer that leads back to itself")

// checkType refuses a pointer to itself, such as of type P *P. The JSON library finds cycles by their depth in the
// text, which pointers alone do not have.
func checkType(value any) error {
	t := reflect.TypeOf(value)
	for n := 0; t != nil && t.Kind() == reflect.Pointer; n++ {
		if n == maxPointers {
			return errCycle
		}
		t = t.Elem()
	}
	return nil
}

// checkPointers refuses an interface value that points to itself.
func checkPointers(_ *jsontext.Encoder, p **any) error {
	next, ok := *p, true
	for n := 0; ok && next != nil; n++ {
		if n == maxPointers {
			return errCycle
		}
		next, ok = (*next).(*any)
	}
	return errors.ErrUnsupported
}

// encodeNumber writes a json.Number as a number. "" is 0. The option string of a field, and the keys of a map, are
// strings.
func encodeNumber(enc *jsontext.Encoder, n json.Number) error {
	quoted, _ := jsonv2.GetOption(enc.Options(), jsonv2.StringifyNumbers)
	if kind, length := enc.StackIndex(enc.StackDepth()); kind == jsontext.KindBeginObject && length%2 == 0 {
		return enc.WriteToken(jsontext.String(string(n))) // a key may have any text, as in encoding/json
	}
	if n == "" {
		n = "0"
	}
	if !isNumber(n) {
		return fmt.Errorf("invalid number literal %.64q", string(n))
	}
	if quoted {
		return enc.WriteToken(jsontext.String(string(n)))
	}
	return enc.WriteValue(jsontext.Value(n))
}

func isNumber(n json.Number) bool {
	value := jsontext.Value(n)
	return value.Kind() == jsontext.KindNumber && value.IsValid() && n[len(n)-1] > ' ' && n[0] > ' '
}

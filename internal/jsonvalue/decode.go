package jsonvalue

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

var unmarshalers = jsonv2.JoinUnmarshalers(
	jsonv2.UnmarshalFromFunc(decodeAny),
	jsonv2.UnmarshalFromFunc(decodeNumber),
	jsonv2.UnmarshalFromFunc(decodeURL),
)

// decodeOptions follow the last of several members with one name, and replace text that is not UTF-8, and half an
// escaped surrogate pair, with U+FFFD.
var decodeOptions = jsonv2.JoinOptions(
	jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true),
	jsonv1.FormatDurationAsNano(true),
	jsonv1.ParseBytesWithLooseRFC4648(true),
	jsonv2.WithUnmarshalers(unmarshalers),
)

// looseOptions also read all forms of base64. They are slower.
var looseOptions = jsonv2.JoinOptions(decodeOptions, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
	jsonv2.UnmarshalFromFunc(decodeBytes), unmarshalers,
)))

// Unmarshal decodes JSON text into the value that into points to. After an error the value is undefined.
//
// A number in an interface value is a float64, or a json.Number if float64 cannot hold it. A json.Number is an
// integer that float64 would change, such as 9007199254740993, a fraction with more than 17 significant digits that
// float64 would change, and a number beyond the range of float64, such as 1e400.
func Unmarshal(raw []byte, into any) error {
	err := jsonv2.Unmarshal(raw, into, decodeOptions)
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		err = jsonv2.Unmarshal(raw, into, looseOptions)
	}
	return err
}

// UnmarshalFrom is [Unmarshal] with a function that is called before each value is decoded. The function decodes
// the value itself, or returns errors.ErrUnsupported without reading from the decoder.
func UnmarshalFrom(raw []byte, into any, before func(dec *jsontext.Decoder, into any) error) error {
	return jsonv2.Unmarshal(raw, into, looseOptions, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		jsonv2.UnmarshalFromFunc(before), jsonv2.UnmarshalFromFunc(decodeBytes), unmarshalers,
	)))
}

// decodeAny decodes a value into an interface value.
func decodeAny(dec *jsontext.Decoder, into *any) error {
	if *into != nil && reflect.TypeOf(*into).Kind() == reflect.Pointer {
		return errors.ErrUnsupported // the JSON library decodes into what the pointer points to
	}
	value, err := readAny(dec)
	*into = value
	return err
}

func readAny(dec *jsontext.Decoder) (any, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		return numberValue(token.String()), nil
	case jsontext.KindBeginArray:
		list := []any{}
		for dec.PeekKind() != jsontext.KindEndArray {
			value, err := readAny(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := dec.ReadToken()
		return list, err
	case jsontext.KindBeginObject:
		object := make(map[string]any)
		for dec.PeekKind() != jsontext.KindEndObject {
			key, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			name := key.String() // the token is valid until the next read
			if object[name], err = readAny(dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.ReadToken()
		return object, err
	}
	return nil, nil // null
}

// decodeNumber decodes a number, or a string that has one, as encoding/json does.
func decodeNumber(dec *jsontext.Decoder, n *json.Number) error {
	if kind, length := dec.StackIndex(dec.StackDepth()); kind == jsontext.KindBeginObject && length%2 == 0 {
		key, err := dec.ReadToken()
		*n = json.Number(key.String())
		return err
	}
	switch kind := dec.PeekKind(); kind {
	case jsontext.KindNull, jsontext.KindNumber, jsontext.KindString:
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if kind == jsontext.KindNull {
			*n = ""
			return nil
		}
		if *n = json.Number(token.String()); isNumber(*n) {
			return nil
		}
		return fmt.Errorf("invalid number literal %.64q", string(*n))
	}
	return errors.ErrUnsupported // the JSON library reports that the kind is wrong
}

func decodeURL(dec *jsontext.Decoder, u *url.URL) error {
	if dec.PeekKind() != jsontext.KindString {
		return errors.ErrUnsupported
	}
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	parsed, err := url.Parse(token.String())
	if err != nil {
		return err
	}
	*u = *parsed
	return nil
}

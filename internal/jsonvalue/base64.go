package jsonvalue

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeBase64 decodes base64 as peers write it: in the alphabet of RFC 4648, section 4 or 5, with or without padding,
// and in lines.
func DecodeBase64(text []byte) ([]byte, error) {
	data := make([]byte, base64.RawStdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err == nil {
		return data[:n], nil
	}
	plain := bytes.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		case '\r', '\n', '\t', ' ':
			return -1
		}
		return r
	}, text)
	unpadded := bytes.TrimRight(plain, "=")
	if len(plain) > len(unpadded)+2 {
		return nil, err
	}
	n, err = base64.RawStdEncoding.Decode(data, unpadded)
	return data[:n], err
}

// decodeBytes decodes a string into a slice or array of bytes.
func decodeBytes(dec *jsontext.Decoder, into any) error {
	target := reflect.ValueOf(into).Elem()
	kind := target.Kind()
	if kind != reflect.Slice && kind != reflect.Array || target.Type().Elem() != reflect.TypeFor[byte]() || dec.PeekKind() != jsontext.KindString || hasMethods(target.Type()) {
		return errors.ErrUnsupported
	}
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	data, err := DecodeBase64([]byte(token.String()))
	if err == nil && kind == reflect.Array && len(data) != target.Len() {
		err = fmt.Errorf("decoded length of %d mismatches array length of %d", len(data), target.Len())
	}
	if err != nil {
		return &jsonv2.SemanticError{GoType: target.Type(), Err: err} // the type would be that of the function
	}
	if kind == reflect.Slice {
		target.SetBytes(data)
	} else {
		reflect.Copy(target, reflect.ValueOf(data))
	}
	return nil
}

// hasMethods reports whether a type decodes itself.
func hasMethods(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[jsonv2.UnmarshalerFrom]()) || p.Implements(reflect.TypeFor[jsonv2.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// The struct tags of a type describe its JSON. From them, mcp/internal/codecgen generates the methods that
// encode, and go-json-experiment/json decodes. The rules are:
//
//  1. Keys match exactly. No object repeats a key, except in the content, contents and structured content
//     of results, where the last member counts.
//  2. A member that is missing or null has the zero value, except that structuredContent and the ttlMs of
//     events may have the value null.
//  3. A member with omitzero is not sent if it is zero: nil, "", false or 0. Others are always sent: a
//     nil list as [], a nil pointer as null, and a nil raw value as the tag nil says, or as null.
//  4. Members are sent in the order of the struct. Unknown ones follow in their own order, from Extra.
//  5. Raw values and _meta keep their bytes. In a string, half an escaped surrogate pair is U+FFFD.
//  6. The member type, text or blob selects the Go type of content. Content of an unknown type, or that cannot
//     be decoded, is kept.
//  7. Base64 may be in lines, without padding and in the alphabet for URLs.
//
//go:generate go run ./internal/codecgen

// Extra holds the members of an object that this package does not know, as one JSON object in their
// original order, or nil. It must not have a member that is a field of the type.
type Extra = jsontext.Value

// encoding makes the same bytes each time. Raw strings and numbers stay unchanged.
var encoding = jsonv2.JoinOptions(
	jsonv2.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	jsontext.AllowInvalidUTF8(true), // becomes U+FFFD
)

// appendFields appends a struct according to its tags, for types without a method that appends them.
func appendFields(dst []byte, fields any) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	if err := jsonv2.MarshalWrite(buf, fields, encoding); err != nil {
		return dst, fmt.Errorf("mcp: %w", err)
	}
	return buf.Bytes(), nil
}

// decoding decodes the interfaces of this package. It decodes the entries of lists in place: their
// UnmarshalJSON would scan each of them twice more. Half an escaped surrogate pair becomes U+FFFD.
var decoding = jsonv2.JoinOptions(jsontext.AllowInvalidUTF8(true), jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
	jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, t *Tool) error {
		type fields Tool
		return jsonv2.UnmarshalDecode(d, (*fields)(t))
	}),
	jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, p *Prompt) error {
		type fields Prompt
		return jsonv2.UnmarshalDecode(d, (*fields)(p))
	}),
	jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, r *Resource) error {
		type fields Resource
		return jsonv2.UnmarshalDecode(d, (*fields)(r))
	}),
	jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, r *ResourceTemplate) error {
		type fields ResourceTemplate
		return jsonv2.UnmarshalDecode(d, (*fields)(r))
	}),
	jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, a *ToolAnnotations) error {
		type fields ToolAnnotations
		return jsonv2.UnmarshalDecode(d, (*fields)(a))
	}),
	jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, a *PromptArgument) error {
		type fields PromptArgument
		return jsonv2.UnmarshalDecode(d, (*fields)(a))
	}),
	jsonv2.UnmarshalFunc(func(data []byte, content *Content) error {
		if *content = nil; jsonscan.IsPresent(data) {
			*content = keepContent(data, anyContent)
		}
		return nil
	}),
	jsonv2.UnmarshalFunc(func(data []byte, contents *ResourceContents) error {
		if *contents = nil; jsonscan.IsPresent(data) {
			*contents = keepResourceContents(data)
		}
		return nil
	}),
	jsonv2.UnmarshalFunc(func(data []byte, list *[]ResourceContents) (err error) {
		*list, err = decodeList(data, keepResourceContents)
		return err
	}),
	jsonv2.UnmarshalFromFunc(decodeBytes),
	jsonv2.UnmarshalFromFunc(decodeRaw),
)))

// decodeRaw decodes null for an absent value. Other values keep their bytes.
func decodeRaw(d *jsontext.Decoder, raw *json.RawMessage) error {
	if d.PeekKind() != jsontext.KindNull {
		return errors.ErrUnsupported
	}
	switch d.StackPointer().LastToken() {
	case "structuredContent", "ttlMs": // null is a value
		return errors.ErrUnsupported
	}
	*raw = nil
	return d.SkipValue()
}

// decodeBytes decodes base64 in any form, or null for no bytes.
func decodeBytes(d *jsontext.Decoder, data *[]byte) error {
	if kind := d.PeekKind(); kind != jsontext.KindString {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = jsonscan.AppendUnquoted(make([]byte, 0, len(raw)), raw)
	}
	if *data, err = jsonvalue.DecodeBase64(text); err != nil {
		return &DecodeError{Expected: "base64", Got: "a string: " + err.Error()}
	}
	return nil
}

// decode decodes an object according to the tags of a struct. Names match exactly, and no name may
// be repeated.
func decode(data []byte, fields any) error {
	if !utf8.Valid(data) { // decoding allows half surrogate pairs, and with them any bytes
		return &DecodeError{Got: "invalid UTF-8"}
	}
	if err := jsonv2.Unmarshal(data, fields, decoding); err != nil {
		return decodeError(err)
	}
	return nil
}

// decodeResult is decode for a result: in its content, contents and structured content, the last of several
// members with one name counts.
func decodeResult(data []byte, fields any) error {
	err := decode(data, fields)
	if err == nil {
		return nil
	}
	last, failed := withLastMembers(data)
	if failed != nil || len(last) == len(data) {
		return err
	}
	reflect.ValueOf(fields).Elem().SetZero()
	return decode(last, fields)
}

// withLastMembers returns a result without the earlier ones of several members with one name in its payload.
func withLastMembers(result []byte) ([]byte, error) {
	members, err := jsonscan.ReadObject(result)
	if err != nil {
		return nil, err
	}
	var edits []jsonscan.Edit
	for _, name := range []string{"content", "contents", "structuredContent"} {
		if value := members.Get(name); value != nil {
			last, err := jsonscan.LastMembers(value)
			if err != nil {
				return nil, err
			}
			edits = append(edits, jsonscan.Edit{Name: name, Value: last})
		}
	}
	if messages := members.Get("messages"); jsonscan.KindOf(messages) == jsonscan.Array { // of a prompt
		last, err := messagesWithLastMembers(messages)
		if err != nil {
			return nil, err
		}
		edits = append(edits, jsonscan.Edit{Name: "messages", Value: last})
	}
	return jsonscan.Splice(nil, result, edits...)
}

// messagesWithLastMembers is withLastMembers for the messages of a prompt.
func messagesWithLastMembers(messages []byte) ([]byte, error) {
	last := []byte{'['}
	s := jsonscan.New(messages)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil || !more {
			return append(last, ']'), err
		}
		message, err := s.Value()
		if err != nil {
			return nil, err
		}
		if jsonscan.KindOf(message) == jsonscan.Object {
			if message, err = withLastMembers(message); err != nil {
				return nil, err
			}
		}
		if !first {
			last = append(last, ',')
		}
		last = append(last, message...)
	}
}

// An appender appends itself as one JSON object.
type appender interface {
	appendJSON(dst []byte) ([]byte, error)
}

// An objectWriter appends one JSON object, member by member. Raw values stay unchanged. After an
// error it stays in error.
type objectWriter struct {
	buf   []byte
	start int
	err   error
}

func openObject(dst []byte) *objectWriter {
	return &objectWriter{buf: append(dst, '{'), start: len(dst)}
}

// close ends the object with the members of extra and returns the buffer. After an error it returns
// the buffer without the object.
func (w *objectWriter) close(extra Extra) ([]byte, error) {
	if len(extra) > 0 && w.err == nil {
		w.extra(extra)
	}
	if w.err != nil {
		return w.buf[:w.start], fmt.Errorf("mcp: %w", w.err)
	}
	return append(w.buf, '}'), nil
}

// fail keeps the first error.
func (w *objectWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *objectWriter) extra(extra Extra) {
	members, err := jsonscan.ReadObject(extra)
	if err != nil {
		w.fail(fmt.Errorf("Extra: %w", err))
		return
	}
	for m := range members.All() {
		w.comma()
		w.buf = append(append(append(w.buf, m.Key...), ':'), m.Value...)
	}
	// Extra must not repeat a member.
	if _, err := jsonscan.ReadObject(append(w.buf[w.start:len(w.buf):len(w.buf)], '}')); err != nil {
		w.fail(fmt.Errorf("Extra: %w", err))
	}
}

func (w *objectWriter) comma() {
	if len(w.buf) > w.start+1 {
		w.buf = append(w.buf, ',')
	}
}

func (w *objectWriter) name(name string) {
	w.comma()
	w.buf = append(jsonscan.AppendString(w.buf, name), ':')
}

func (w *objectWriter) string(name, value string) {
	w.name(name)
	w.buf = jsonscan.AppendString(w.buf, value)
}

func (w *objectWriter) optionalString(name, value string) {
	if value != "" {
		w.string(name, value)
	}
}

func (w *objectWriter) optionalStringMap(name string, values map[string]string) {
	if values == nil {
		return
	}
	w.member(name, func(dst []byte) ([]byte, error) {
		members := openObject(dst)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			members.string(key, values[key])
		}
		return members.close(nil)
	})
}

func (w *objectWriter) optionalRawMap(name string, values map[string]json.RawMessage) {
	if values == nil {
		return
	}
	w.member(name, func(dst []byte) ([]byte, error) {
		members := openObject(dst)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			members.rawOr(key, values[key], "null")
		}
		return members.close(nil)
	})
}

func (w *objectWriter) optionalRequests(name string, requests map[string]InputRequest) {
	if requests == nil {
		return
	}
	w.member(name, func(dst []byte) ([]byte, error) {
		members := openObject(dst)
		for _, key := range slices.Sorted(maps.Keys(requests)) {
			request := requests[key]
			members.member(key, request.appendJSON)
		}
		return members.close(nil)
	})
}

func (w *objectWriter) null(name string) {
	w.name(name)
	w.buf = append(w.buf, "null"...)
}

func (w *objectWriter) bool(name string, value bool) {
	w.name(name)
	w.buf = strconv.AppendBool(w.buf, value)
}

// flag appends true. It appends nothing for false.
func (w *objectWriter) flag(name string, value bool) {
	if value {
		w.name(name)
		w.buf = append(w.buf, "true"...)
	}
}

func (w *objectWriter) integer(name string, value int64) {
	w.name(name)
	w.buf = strconv.AppendInt(w.buf, value, 10)
}

func (w *objectWriter) optionalInteger(name string, value int64) {
	if value != 0 {
		w.integer(name, value)
	}
}

func (w *objectWriter) token(name string, token ProgressToken) {
	w.raw(name, json.RawMessage(token))
}

func (w *objectWriter) id(name string, id jsonrpc.ID) {
	w.name(name)
	w.buf = id.AppendJSON(w.buf)
}

// maxExact bounds the integers that float64 represents exactly.
const maxExact = 1 << 53

func (w *objectWriter) number(name string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		w.fail(fmt.Errorf("%s: JSON has no number for %v", name, value))
		return
	}
	w.name(name)
	if whole := int64(value); float64(whole) == value && whole != 0 && math.Abs(value) < maxExact {
		w.buf = strconv.AppendInt(w.buf, whole, 10) // the same digits, computed faster
		return
	}
	format := byte('f')
	if abs := math.Abs(value); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e' // avoids very long numbers
	}
	w.buf = strconv.AppendFloat(w.buf, value, format, -1, 64)
}

func (w *objectWriter) base64(name string, value []byte) {
	w.name(name)
	w.buf = append(w.buf, '"')
	w.buf = base64.StdEncoding.AppendEncode(w.buf, value)
	w.buf = append(w.buf, '"')
}

// raw appends a valid JSON value unchanged. In text that is not UTF-8, U+FFFD replaces the wrong bytes, as in other
// strings: a result must not be lost after the tool has run.
func (w *objectWriter) raw(name string, value json.RawMessage) {
	err := jsonscan.Valid(value)
	if err != nil && !utf8.Valid(value) {
		value = bytes.ToValidUTF8(value, []byte("\ufffd"))
		err = jsonscan.Valid(value)
	}
	if err != nil {
		w.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	w.name(name)
	w.buf = append(w.buf, value...)
}

// rawOr appends ifNil for nil.
func (w *objectWriter) rawOr(name string, value json.RawMessage, ifNil string) {
	if value == nil {
		w.name(name)
		w.buf = append(w.buf, ifNil...)
		return
	}
	w.raw(name, value)
}

func (w *objectWriter) optionalRaw(name string, value json.RawMessage) {
	if value != nil {
		w.raw(name, value)
	}
}

func (w *objectWriter) meta(meta Meta) {
	if meta.IsZero() {
		return
	}
	if kind := jsonscan.KindOf(meta); kind != jsonscan.Object {
		w.fail(fmt.Errorf("_meta must be an object, not %v", kind))
		return
	}
	w.raw("_meta", json.RawMessage(meta))
}

// member appends a value that appends itself.
func (w *objectWriter) member(name string, value func(dst []byte) ([]byte, error)) {
	w.name(name)
	var err error
	if w.buf, err = value(w.buf); err != nil {
		w.fail(fmt.Errorf("%s: %w", name, err))
	}
}

func (w *objectWriter) object(name string, value appender) {
	if value == nil {
		w.fail(fmt.Errorf("%s is missing", name))
		return
	}
	w.member(name, value.appendJSON)
}

// fields appends a value of another package.
func (w *objectWriter) fields(name string, value any) {
	w.member(name, func(dst []byte) ([]byte, error) { return appendFields(dst, value) })
}

// writeStrings appends a list of strings. nil is an empty list.
func writeStrings[T ~string](w *objectWriter, name string, list []T) {
	w.name(name)
	w.buf = append(w.buf, '[')
	for i, value := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = jsonscan.AppendString(w.buf, string(value))
	}
	w.buf = append(w.buf, ']')
}

// optionalStrings appends a list of strings unless it is nil.
func optionalStrings[T ~string](w *objectWriter, name string, list []T) {
	if list != nil {
		writeStrings(w, name, list)
	}
}

// writeObjects appends a list of objects. nil is an empty list.
func writeObjects[T any](w *objectWriter, name string, list []T, appendItem func(item *T, dst []byte) ([]byte, error)) {
	w.name(name)
	w.buf = append(w.buf, '[')
	for i := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		var err error
		if w.buf, err = appendItem(&list[i], w.buf); err != nil {
			w.fail(fmt.Errorf("%s: item %d: %w", name, i, err))
			return
		}
	}
	w.buf = append(w.buf, ']')
}

// writeList appends a list. nil is an empty list.
func writeList[T appender](w *objectWriter, name string, list []T) {
	w.name(name)
	var err error
	if w.buf, err = appendList(w.buf, list); err != nil {
		w.fail(fmt.Errorf("%s: %w", name, err))
	}
}

func appendList[T appender](dst []byte, list []T) (_ []byte, err error) {
	dst = append(dst, '[')
	start := len(dst)
	for i, item := range list {
		if any(item) == nil {
			return dst, fmt.Errorf("item %d is nil", i)
		}
		if isUndecoded(item) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		if dst, err = item.appendJSON(dst); err != nil {
			return dst, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

// isUndecoded reports whether an item was received and could not be decoded, so that another peer could not
// decode it either.
func isUndecoded(item any) bool {
	switch item := item.(type) {
	case *UnknownContent:
		return item != nil && item.Err != nil
	case *UnknownResourceContents:
		return item != nil && item.Err != nil
	}
	return false
}

package openapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A body is how arguments become the body of a request.
type body struct {
	contentType string
	form        form
	required    bool
	// argument holds the whole body; empty when the body's properties are
	// arguments of their own.
	argument string
	// properties are the body's, if it has some.
	properties map[string]property
}

// A form is what a body is written as.
type form uint8

const (
	jsonForm form = iota
	multipartForm
	urlencodedForm
	textForm
	binaryForm
)

// A property is one of a form.
type property struct {
	style       *style // how it is written into a urlencoded form, nil for text or JSON
	contentType string // of its part in a multipart form, "" for the default
	binary      bool
}

// formOf is what a media type asks for.
func formOf(media string) form {
	switch media = mediaType(media); {
	case isJSON(media), media == "*/*", media == "application/*":
		return jsonForm
	case media == "multipart/form-data", media == "multipart/*":
		return multipartForm
	case media == "application/x-www-form-urlencoded":
		return urlencodedForm
	case isText(media):
		return textForm
	}
	return binaryForm
}

// chooseMedia picks what is sent when a service takes several: JSON before the forms,
// these before the rest, and plain application/json before other JSON.
func chooseMedia(content openapi3.Content) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(content)), func(a, b string) int {
		rank := func(media string) int {
			if mediaType(media) == "application/json" {
				return -1
			}
			return int(formOf(media))
		}
		return rank(a) - rank(b)
	})
}

// body makes the body of an operation, and its schema; nil if there is none.
func (b *builder) body(path, method string, operation *openapi3.Operation) (*body, json.RawMessage, error) {
	if operation.RequestBody == nil {
		return nil, nil, nil
	}
	described := operation.RequestBody.Value
	switch {
	case described == nil:
		return nil, nil, errors.New("its request body refers to itself")
	case len(described.Content) == 0:
		return nil, nil, nil
	case method == "TRACE":
		return nil, nil, errors.New("TRACE has no request body")
	}
	media := chooseMedia(described.Content)
	made := &body{form: formOf(media), contentType: media, required: described.Required}
	schema := anything
	content := described.Content[media]
	if content != nil && content.Schema != nil {
		var err error
		if schema, err = b.document.source.at("paths", path, strings.ToLower(method), "requestBody", "content", media, "schema"); err != nil {
			return nil, nil, err
		}
	}
	switch made.form {
	case jsonForm:
		made.contentType = concrete(media, "application/json")
	case textForm:
		made.contentType = concrete(media, "text/plain")
		schema = json.RawMessage(`{"type":"string"}`)
	case binaryForm:
		made.contentType = concrete(media, "application/octet-stream")
		schema = json.RawMessage(`{"type":"string","contentEncoding":"base64"}`)
	default:
		var encodings openapi3.Encodings
		if content != nil {
			encodings = content.Encoding
		}
		var err error
		made.properties, err = b.formProperties(schema, encodings)
		if err != nil {
			return nil, nil, err
		}
	}
	return made, schema, nil
}

// formProperties says how each property of a form is written.
func (b *builder) formProperties(schema json.RawMessage, encodings openapi3.Encodings) (map[string]property, error) {
	schemas := make(map[string]json.RawMessage)
	parts := walk{b.document.source, maxParts}
	if err := parts.properties(schema, schemas); err != nil {
		return nil, err
	}
	properties := make(map[string]property)
	for name := range encodings {
		if schemas[name] == nil {
			schemas[name] = anything
		}
	}
	for name, schema := range schemas {
		var p property
		var err error
		if p.binary, err = b.document.source.isBinary(schema); err != nil {
			return nil, err
		}
		if encoding := encodings[name]; encoding != nil {
			p.contentType, _, _ = strings.Cut(encoding.ContentType, ",")
			p.contentType = strings.TrimSpace(p.contentType)
			if encoding.Style != "" || encoding.Explode != nil || encoding.AllowReserved {
				method := encoding.SerializationMethod()
				if !slices.Contains(styles["query"], method.Style) {
					return nil, fmt.Errorf("the property %.200q has the style %.40q, expected one of %q in a form", name, method.Style, styles["query"])
				}
				p.style = &style{name: method.Style, explode: method.Explode, reserved: encoding.AllowReserved}
			}
		}
		properties[name] = p
	}
	return properties, nil
}

// isBinary says whether a schema is of bytes, or of a list of them.
func (s *source) isBinary(schema json.RawMessage) (bool, error) {
	members, err := s.object(schema)
	if err == nil && typeOf(members) == "array" {
		members, err = s.object(members.Get("items"))
	}
	return err == nil && isBinary(members), err
}

// encode writes the body. nil means that there is none.
func (b *body) encode(arguments *jsonscan.Members) (content []byte, contentType string, err error) {
	whole, fields := b.pick(arguments)
	if whole == nil && !b.required {
		return nil, "", nil
	}
	switch b.form {
	case jsonForm:
		return whole, b.contentType, nil
	case multipartForm:
		return b.multipart(fields)
	case urlencodedForm:
		content, err = b.urlencoded(fields)
		return content, b.contentType, err
	case textForm:
		text, err := scalar(whole)
		return []byte(text), b.contentType, err
	}
	content, err = fromBase64(whole)
	return content, b.contentType, err
}

// pick takes the body's part of the arguments: as one text, nil if nothing is given,
// and as fields, if it is an object.
func (b *body) pick(arguments *jsonscan.Members) (whole json.RawMessage, fields []jsonscan.Member) {
	if b.argument != "" {
		whole = arguments.Get(b.argument)
		if jsonscan.KindOf(whole) == jsonscan.Object {
			members, err := jsonscan.ReadObject(whole)
			if err != nil {
				return whole, nil
			}
			fields = slices.Collect(members.All())
		}
		return whole, fields
	}
	object := []byte{'{'}
	for m := range arguments.All() {
		if _, ours := b.properties[m.Name()]; ours {
			fields = append(fields, m)
			object = appendMember(object, m.Key, m.Value)
		}
	}
	if len(fields) == 0 && !b.required {
		return nil, nil
	}
	return append(object, '}'), fields
}

// fromBase64 decodes bytes that are given as text.
func fromBase64(raw json.RawMessage) ([]byte, error) {
	text, err := scalar(raw)
	if err != nil {
		return nil, err
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("expected bytes in base64 (RFC 4648, section 4)")
	}
	return decoded, nil
}

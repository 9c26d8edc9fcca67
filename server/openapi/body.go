package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
)

// A body encodes arguments as a request body.
type body struct {
	contentType string
	form        form
	required    bool
	// argument is the argument with the whole body. It is empty if each property of the body
	// is an argument.
	argument string
	// properties are the properties of a form, or of a body without argument.
	properties map[string]property
}

// A form is the format of a body.
type form uint8

const (
	jsonForm form = iota
	multipartForm
	urlencodedForm
	textForm
	binaryForm
)

// A property is a property of a form.
type property struct {
	style       *style // in a urlencoded form; nil for text or JSON
	contentType string // of its part in a multipart form; empty for the default
	binary      bool
}

// formFor returns the format for a media type.
func formFor(media string) form {
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

// chooseMedia returns the media type to send: application/json, other JSON, forms, or another one,
// in this order of preference.
func chooseMedia(content openapi3.Content) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(content)), func(a, b string) int {
		rank := func(media string) int {
			if mediaType(media) == "application/json" {
				return -1
			}
			return int(formFor(media))
		}
		return rank(a) - rank(b)
	})
}

// body returns the body of an operation and its schema, or nil.
func (b *builder) body(path, method string, operation *openapi3.Operation) (*body, json.RawMessage, error) {
	if operation.RequestBody == nil {
		return nil, nil, nil
	}
	declared := operation.RequestBody.Value
	switch {
	case declared == nil:
		return nil, nil, errors.New("its request body refers to itself")
	case len(declared.Content) == 0:
		return nil, nil, nil
	case method == "TRACE":
		return nil, nil, errors.New("TRACE cannot have a request body")
	}
	media := chooseMedia(declared.Content)
	made := &body{form: formFor(media), contentType: media, required: declared.Required}
	schema := anySchema
	content := declared.Content[media]
	if content != nil && content.Schema != nil {
		var err error
		if schema, err = b.document.source.at("paths", path, strings.ToLower(method), "requestBody", "content", media, "schema"); err != nil {
			return nil, nil, err
		}
	}
	switch made.form {
	case jsonForm:
		made.contentType = concreteType(media, "application/json")
	case textForm:
		made.contentType = concreteType(media, "text/plain")
		schema = json.RawMessage(`{"type":"string"}`)
	case binaryForm:
		made.contentType = concreteType(media, "application/octet-stream")
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

// formProperties returns the encoding of each property of a form.
func (b *builder) formProperties(schema json.RawMessage, encodings openapi3.Encodings) (map[string]property, error) {
	schemas := make(map[string]json.RawMessage)
	walk := schemaWalk{b.document.source, maxSchemas}
	if err := walk.properties(schema, schemas); err != nil {
		return nil, err
	}
	properties := make(map[string]property)
	for name := range encodings {
		if schemas[name] == nil {
			schemas[name] = anySchema
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

// isBinary reports whether a schema describes binary data, or a list of binary data.
func (s *source) isBinary(schema json.RawMessage) (bool, error) {
	members, err := s.object(schema)
	if err == nil && typeOf(members) == "array" {
		members, err = s.object(members.Get("items"))
	}
	return err == nil && isBinary(members), err
}

// encode returns the body. contentType is empty if there is no body.
func (b *body) encode(arguments *jsonscan.Members) (content []byte, contentType string, err error) {
	whole, fields := b.content(arguments)
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

// content returns the body's part of the arguments as JSON, or nil if there is none. fields are
// its members if it is an object.
func (b *body) content(arguments *jsonscan.Members) (whole json.RawMessage, fields []jsonscan.Member) {
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
		if _, ok := b.properties[m.Name()]; ok {
			fields = append(fields, m)
			object = appendMember(object, m.Key, m.Value)
		}
	}
	if len(fields) == 0 && !b.required {
		return nil, nil
	}
	return append(object, '}'), fields
}

// fromBase64 decodes binary data.
func fromBase64(raw json.RawMessage) ([]byte, error) {
	text, err := scalar(raw)
	if err != nil {
		return nil, err
	}
	decoded, err := jsonvalue.DecodeBase64([]byte(text))
	if err != nil {
		return nil, errors.New("expected bytes in base64 (RFC 4648)")
	}
	return decoded, nil
}

// urlencoded encodes fields as application/x-www-form-urlencoded. Without a style, an object is
// encoded as JSON and a list as one pair per element (OpenAPI 3.1.1, section 4.8.15.1.2).
func (b *body) urlencoded(fields []jsonscan.Member) ([]byte, error) {
	var all []string
	for _, field := range fields {
		name := field.Name()
		encoding := b.properties[name].style
		if encoding == nil {
			encoding = &style{name: "form", explode: true}
			if jsonscan.KindOf(field.Value) == jsonscan.Object {
				all = append(all, escapeQuery(name)+"="+escapeQuery(string(field.Value)))
				continue
			}
		}
		pairs, err := encoding.pairs(name, field.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", jsonscan.Quote(name), err)
		}
		all = append(all, pairs...)
	}
	return []byte(strings.Join(all, "&")), nil
}

// multipart encodes fields as multipart/form-data (RFC 7578): a list as one part per element,
// binary data as files, objects as JSON, other values as text (OpenAPI 3.1.1, section 4.8.15.1.1).
func (b *body) multipart(fields []jsonscan.Member) (content []byte, contentType string, err error) {
	var buffer bytes.Buffer
	w := multipart.NewWriter(&buffer)
	for _, field := range fields {
		elements := []json.RawMessage{field.Value}
		if jsonscan.KindOf(field.Value) == jsonscan.Array {
			if err := json.Unmarshal(field.Value, &elements); err != nil {
				return nil, "", err
			}
		}
		for _, element := range elements {
			if jsonscan.KindOf(element) == jsonscan.Null {
				continue
			}
			name := field.Name()
			if err := b.properties[name].part(w, name, element); err != nil {
				return nil, "", fmt.Errorf("%s: %w", jsonscan.Quote(name), err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return buffer.Bytes(), w.FormDataContentType(), nil
}

func (p property) part(w *multipart.Writer, name string, raw json.RawMessage) error {
	header := textproto.MIMEHeader{}
	content, contentType := []byte(raw), ""
	var err error
	switch kind := jsonscan.KindOf(raw); {
	case p.binary:
		content, err = fromBase64(raw)
		contentType = "application/octet-stream"
		header.Set("Content-Disposition", multipart.FileContentDisposition(name, name))
	case kind == jsonscan.Object, kind == jsonscan.Array, isJSON(mediaType(p.contentType)):
		contentType = "application/json"
	default:
		var text string
		text, err = scalar(raw)
		content = []byte(text)
	}
	if err != nil {
		return err
	}
	if !p.binary {
		header.Set("Content-Disposition", `form-data; name="`+quoted.Replace(name)+`"`)
	}
	if p.contentType != "" {
		contentType = concreteType(p.contentType, contentType)
	}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	return err
}

// quoted escapes the name of a field as browsers do: HTML, "multipart/form-data encoding".
var quoted = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

// mediaType returns a media type in lower case, without parameters.
func mediaType(header string) string {
	media, _, _ := strings.Cut(header, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// isText reports whether a media type is textual.
func isText(media string) bool {
	switch media {
	case "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript",
		"application/x-ndjson", "application/x-www-form-urlencoded", "application/graphql", "application/sql":
		return true
	}
	return strings.HasPrefix(media, "text/") || isJSON(media) ||
		strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+yaml")
}

// concreteType returns media, or otherwise if media is a range or invalid.
func concreteType(media, otherwise string) string {
	if _, _, err := mime.ParseMediaType(media); err != nil || strings.Contains(media, "*") {
		return otherwise
	}
	return media
}

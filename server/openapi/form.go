package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// urlencoded writes fields as application/x-www-form-urlencoded. An object is written
// as JSON and a list as one pair for each element, unless the document says a style
// (OpenAPI 3.1.1, section 4.8.15.1.2).
func (b *body) urlencoded(fields []jsonscan.Member) ([]byte, error) {
	var all []string
	for _, field := range fields {
		name := field.Name()
		how := b.properties[name].style
		if how == nil {
			how = &style{name: "form", explode: true}
			if jsonscan.KindOf(field.Value) == jsonscan.Object {
				all = append(all, escapeQuery(name)+"="+escapeQuery(string(field.Value)))
				continue
			}
		}
		pairs, err := how.pairs(name, field.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", jsonscan.Quote(name), err)
		}
		all = append(all, pairs...)
	}
	return []byte(strings.Join(all, "&")), nil
}

// multipart writes fields as multipart/form-data (RFC 7578): a list as one part for
// each element, bytes as files, objects as JSON, all else as text (OpenAPI 3.1.1,
// section 4.8.15.1.1).
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
		contentType = concrete(p.contentType, contentType)
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

// quoted escapes a field's name as browsers do: HTML, "multipart/form-data encoding".
var quoted = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

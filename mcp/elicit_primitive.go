package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// decodePrimitive reads the schema of one field.
func decodePrimitive(data []byte) (PrimitiveSchema, error) {
	keywords, err := jsonscan.ReadObject(data)
	if err != nil {
		return nil, objectError(data, err)
	}
	kind := keywords.Get("type")
	if jsonscan.KindOf(kind) != jsonscan.String {
		return nil, &DecodeError{Pointer: "/type", Expected: "the name of a type", Got: gotKind(kind)}
	}
	var schema interface {
		PrimitiveSchema
		json.Unmarshaler
	}
	switch jsonscan.Unquote(kind) {
	case "string":
		if schema = new(StringSchema); keywords.Get("enum") != nil || keywords.Get("oneOf") != nil {
			schema = new(EnumSchema)
		}
	case "number", "integer":
		schema = new(NumberSchema)
	case "boolean":
		schema = new(BooleanSchema)
	case "array":
		schema = new(EnumSchema)
	default:
		schema = new(UnknownSchema)
	}
	if err := schema.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return schema, nil
}

// A StringSchema is a field for text.
type StringSchema struct {
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// MinLength and MaxLength count code points.
	MinLength *int `json:"minLength,omitzero"`
	MaxLength *int `json:"maxLength,omitzero"`
	// Format helps the person who types; values are not checked against it.
	Format StringFormat `json:"format,omitzero"`
	// Default exists since 2025-11-25.
	Default *string `json:"default,omitzero"`
	Extra   Extra   `json:",embed"`
}

// A StringFormat is what kind of text a field takes.
type StringFormat string

// The formats.
const (
	FormatEmail    StringFormat = "email"
	FormatURI      StringFormat = "uri"
	FormatDate     StringFormat = "date"
	FormatDateTime StringFormat = "date-time"
)

func (*StringSchema) isPrimitiveSchema() {}

func (s *StringSchema) check(value json.RawMessage) error {
	text, err := stringValue(value)
	if err != nil {
		return err
	}
	length := utf8.RuneCountInString(text)
	if s.MinLength != nil && length < *s.MinLength {
		return &DecodeError{Expected: fmt.Sprintf("at least %d characters", *s.MinLength), Got: strconv.Itoa(length)}
	}
	if s.MaxLength != nil && length > *s.MaxLength {
		return &DecodeError{Expected: fmt.Sprintf("at most %d characters", *s.MaxLength), Got: strconv.Itoa(length)}
	}
	return nil
}

// AppendJSON appends the schema as a JSON object.
func (s *StringSchema) AppendJSON(dst []byte) ([]byte, error) {
	type fields StringSchema
	return appendFields(dst, &typed[fields]{"string", (*fields)(s)})
}

// MarshalJSON returns the schema as a JSON object.
func (s StringSchema) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the schema. The error is a *[DecodeError].
func (s *StringSchema) UnmarshalJSON(data []byte) error {
	type fields StringSchema
	return decodeTyped(data, (*fields)(s))
}

// A NumberSchema is a field for a number.
type NumberSchema struct {
	// Integer: the number has no fraction.
	Integer     bool
	Title       string
	Description string
	Minimum     *float64
	Maximum     *float64
	// Default exists since 2025-11-25.
	Default *float64
	Extra   Extra
}

// numberFields is a NumberSchema as it stands on the wire.
type numberFields struct {
	Type        string   `json:"type"`
	Title       string   `json:"title,omitzero"`
	Description string   `json:"description,omitzero"`
	Minimum     *float64 `json:"minimum,omitzero"`
	Maximum     *float64 `json:"maximum,omitzero"`
	Default     *float64 `json:"default,omitzero"`
	Extra       Extra    `json:",embed"`
}

func (*NumberSchema) isPrimitiveSchema() {}

func (n *NumberSchema) check(value json.RawMessage) error {
	kind := jsonscan.KindOf(value)
	number, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
	if kind != jsonscan.Number || err != nil {
		return &DecodeError{Expected: "a number", Got: kind.String()}
	}
	if n.Integer && number != math.Trunc(number) {
		return &DecodeError{Expected: "an integer", Got: string(value)}
	}
	if n.Minimum != nil && number < *n.Minimum {
		return &DecodeError{Expected: fmt.Sprintf("at least %v", *n.Minimum), Got: string(value)}
	}
	if n.Maximum != nil && number > *n.Maximum {
		return &DecodeError{Expected: fmt.Sprintf("at most %v", *n.Maximum), Got: string(value)}
	}
	return nil
}

// AppendJSON appends the schema as a JSON object.
func (n *NumberSchema) AppendJSON(dst []byte) ([]byte, error) {
	kind := "number"
	if n.Integer {
		kind = "integer"
	}
	return appendFields(dst, &numberFields{kind, n.Title, n.Description, n.Minimum, n.Maximum, n.Default, n.Extra})
}

// MarshalJSON returns the schema as a JSON object.
func (n NumberSchema) MarshalJSON() ([]byte, error) { return n.AppendJSON(nil) }

// UnmarshalJSON decodes the schema. The error is a *[DecodeError].
func (n *NumberSchema) UnmarshalJSON(data []byte) error {
	var f numberFields
	if err := decode(data, &f); err != nil {
		return err
	}
	*n = NumberSchema{f.Type == "integer", f.Title, f.Description, f.Minimum, f.Maximum, f.Default, f.Extra}
	return nil
}

// A BooleanSchema is a field for yes or no.
type BooleanSchema struct {
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Default     *bool  `json:"default,omitzero"`
	Extra       Extra  `json:",embed"`
}

func (*BooleanSchema) isPrimitiveSchema() {}

func (*BooleanSchema) check(value json.RawMessage) error {
	if kind := jsonscan.KindOf(value); kind != jsonscan.Bool {
		return &DecodeError{Expected: "a boolean", Got: kind.String()}
	}
	return nil
}

// AppendJSON appends the schema as a JSON object.
func (b *BooleanSchema) AppendJSON(dst []byte) ([]byte, error) {
	type fields BooleanSchema
	return appendFields(dst, &typed[fields]{"boolean", (*fields)(b)})
}

// MarshalJSON returns the schema as a JSON object.
func (b BooleanSchema) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil) }

// UnmarshalJSON decodes the schema. The error is a *[DecodeError].
func (b *BooleanSchema) UnmarshalJSON(data []byte) error {
	type fields BooleanSchema
	return decodeTyped(data, (*fields)(b))
}

// An UnknownSchema is that of a field of a type that this package does not know.
// It takes any value.
type UnknownSchema struct {
	// Raw is the schema's JSON object.
	Raw json.RawMessage
}

func (*UnknownSchema) isPrimitiveSchema() {}

func (*UnknownSchema) check(json.RawMessage) error { return nil }

// AppendJSON appends the schema as it came.
func (u *UnknownSchema) AppendJSON(dst []byte) ([]byte, error) {
	if _, err := jsonscan.ReadObject(u.Raw); err != nil {
		return dst, fmt.Errorf("mcp: schema of an unknown type: %w", err)
	}
	return append(dst, u.Raw...), nil
}

// MarshalJSON returns the schema as it came.
func (u UnknownSchema) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil) }

// UnmarshalJSON keeps a copy of the schema.
func (u *UnknownSchema) UnmarshalJSON(data []byte) error {
	if _, err := jsonscan.ReadObject(data); err != nil {
		return objectError(data, err)
	}
	u.Raw = bytes.Clone(data)
	return nil
}

func stringValue(value json.RawMessage) (string, error) {
	if kind := jsonscan.KindOf(value); kind != jsonscan.String {
		return "", &DecodeError{Expected: "a string", Got: kind.String()}
	}
	return jsonscan.Unquote(value), nil
}

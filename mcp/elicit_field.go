package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// decodePrimitive decodes the schema of one field.
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

// A StringSchema is a text field.
//
//codec:type "string"
type StringSchema struct {
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// MinLength and MaxLength count code points.
	MinLength *int `json:"minLength,omitzero"`
	MaxLength *int `json:"maxLength,omitzero"`
	// Format is a hint for the user. Values are not checked against it.
	Format StringFormat `json:"format,omitzero"`
	// Default exists since 2025-11-25.
	Default *string `json:"default,omitzero"`
	Extra   Extra   `json:",embed"`
}

// A StringFormat is a kind of text.
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

// A numberFields is the JSON of a NumberSchema.
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

// appendJSON appends the schema as a JSON object.
func (n *NumberSchema) appendJSON(dst []byte) ([]byte, error) {
	kind := "number"
	if n.Integer {
		kind = "integer"
	}
	return appendFields(dst, &numberFields{kind, n.Title, n.Description, n.Minimum, n.Maximum, n.Default, n.Extra})
}

// MarshalJSON returns the schema as a JSON object.
func (n NumberSchema) MarshalJSON() ([]byte, error) { return n.appendJSON(nil) }

// UnmarshalJSON decodes the schema. The error is a *[DecodeError].
func (n *NumberSchema) UnmarshalJSON(data []byte) error {
	var f numberFields
	if err := decode(data, &f); err != nil {
		return err
	}
	*n = NumberSchema{f.Type == "integer", f.Title, f.Description, f.Minimum, f.Maximum, f.Default, f.Extra}
	return nil
}

// A BooleanSchema is a field for true or false.
//
//codec:type "boolean"
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

// An UnknownSchema is the schema of a field of an unknown type. It accepts any value.
type UnknownSchema struct {
	// Raw is the JSON object of the schema.
	Raw json.RawMessage
}

func (*UnknownSchema) isPrimitiveSchema() {}

func (*UnknownSchema) check(json.RawMessage) error { return nil }

// appendJSON appends the schema unchanged.
func (u *UnknownSchema) appendJSON(dst []byte) ([]byte, error) {
	if _, err := jsonscan.ReadObject(u.Raw); err != nil {
		return dst, fmt.Errorf("mcp: schema of an unknown type: %w", err)
	}
	return append(dst, u.Raw...), nil
}

// MarshalJSON returns the schema unchanged.
func (u UnknownSchema) MarshalJSON() ([]byte, error) { return u.appendJSON(nil) }

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

// An EnumSchema is a field with a choice of options. Options with titles are encoded as oneOf
// (anyOf if Multiple), and others as enum.
type EnumSchema struct {
	Title       string
	Description string
	Options     []EnumOption
	// Multiple: the user can choose several options, and the value is a list (since 2025-11-25).
	Multiple bool
	// MinItems and MaxItems bound the number of chosen options, if Multiple.
	MinItems *int
	MaxItems *int
	// Default has the options that are preselected: at most one unless Multiple (since 2025-11-25).
	Default []string
	// EnumNames: titles are encoded as enumNames, the only form in 2025-06-18. It must not be
	// combined with Multiple.
	EnumNames bool
	Extra     Extra
}

// An EnumOption is one option of a choice.
type EnumOption struct {
	// Value is the value in the answer.
	Value string
	// Title is shown to the user. "" means the value.
	Title string
}

// An enumFields is the JSON of an EnumSchema.
type enumFields struct {
	Type        string          `json:"type"`
	Title       string          `json:"title,omitzero"`
	Description string          `json:"description,omitzero"`
	Enum        []string        `json:"enum,omitzero"`
	EnumNames   []string        `json:"enumNames,omitzero"`
	OneOf       []titledOption  `json:"oneOf,omitzero"`
	Items       *enumItems      `json:"items,omitzero"`
	MinItems    *int            `json:"minItems,omitzero"`
	MaxItems    *int            `json:"maxItems,omitzero"`
	Default     json.RawMessage `json:"default,omitzero"`
	Extra       Extra           `json:",embed"`
}

type enumItems struct {
	Type  string         `json:"type,omitzero"`
	Enum  []string       `json:"enum,omitzero"`
	AnyOf []titledOption `json:"anyOf,omitzero"`
}

type titledOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func (*EnumSchema) isPrimitiveSchema() {}

func (e *EnumSchema) check(value json.RawMessage) error {
	if !e.Multiple {
		return e.checkOne(value)
	}
	var chosen []json.RawMessage
	if err := decode(value, &chosen); err != nil {
		return err
	}
	if e.MinItems != nil && len(chosen) < *e.MinItems {
		return &DecodeError{Expected: fmt.Sprintf("at least %d options", *e.MinItems), Got: fmt.Sprint(len(chosen))}
	}
	if e.MaxItems != nil && len(chosen) > *e.MaxItems {
		return &DecodeError{Expected: fmt.Sprintf("at most %d options", *e.MaxItems), Got: fmt.Sprint(len(chosen))}
	}
	for i, one := range chosen {
		if err := e.checkOne(one); err != nil {
			return prefixPointer(fmt.Sprintf("/%d", i), err)
		}
	}
	return nil
}

func (e *EnumSchema) checkOne(value json.RawMessage) error {
	chosen, err := stringValue(value)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(e.Options, func(o EnumOption) bool { return o.Value == chosen }) {
		return &DecodeError{Expected: "one of " + strings.Join(e.values(), ", "), Got: jsonscan.Quote(chosen)}
	}
	return nil
}

func (e *EnumSchema) values() []string {
	values := make([]string, len(e.Options))
	for i, option := range e.Options {
		values[i] = option.Value
	}
	return values
}

func (e *EnumSchema) titled() bool {
	return slices.ContainsFunc(e.Options, func(o EnumOption) bool { return o.Title != "" })
}

// titles returns the options with a title each.
func (e *EnumSchema) titles() []titledOption {
	titles := make([]titledOption, len(e.Options))
	for i, option := range e.Options {
		titles[i] = titledOption{option.Value, option.Title}
		if option.Title == "" {
			titles[i].Title = option.Value
		}
	}
	return titles
}

// appendJSON appends the schema as a JSON object.
func (e *EnumSchema) appendJSON(dst []byte) ([]byte, error) {
	f := enumFields{Type: "string", Title: e.Title, Description: e.Description, Extra: e.Extra}
	switch {
	case e.Multiple:
		f.Type, f.MinItems, f.MaxItems = "array", e.MinItems, e.MaxItems
		f.Items = e.items()
	case e.EnumNames:
		f.Enum = e.values()
		for _, option := range e.titles() {
			f.EnumNames = append(f.EnumNames, option.Title)
		}
	case e.titled():
		f.OneOf = e.titles()
	default:
		f.Enum = e.values()
	}
	var err error
	if f.Default, err = e.defaultJSON(); err != nil {
		return dst, err
	}
	return appendFields(dst, &f)
}

func (e *EnumSchema) items() *enumItems {
	if e.titled() {
		return &enumItems{AnyOf: e.titles()}
	}
	return &enumItems{Type: "string", Enum: e.values()}
}

func (e *EnumSchema) defaultJSON() (json.RawMessage, error) {
	switch {
	case e.Default == nil:
		return nil, nil
	case e.Multiple:
		return appendFields(nil, e.Default)
	case len(e.Default) == 1:
		return jsonscan.AppendString(nil, e.Default[0]), nil
	}
	return nil, fmt.Errorf("mcp: a choice of one option has %d defaults", len(e.Default))
}

// MarshalJSON returns the schema as a JSON object.
func (e EnumSchema) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

// UnmarshalJSON decodes the schema. The error is a *[DecodeError].
func (e *EnumSchema) UnmarshalJSON(data []byte) error {
	var f enumFields
	if err := decode(data, &f); err != nil {
		return err
	}
	*e = EnumSchema{
		Title: f.Title, Description: f.Description, Extra: f.Extra,
		Multiple: f.Type == "array", MinItems: f.MinItems, MaxItems: f.MaxItems, EnumNames: f.EnumNames != nil,
	}
	titled, values := f.OneOf, f.Enum
	if f.Items != nil {
		titled, values = f.Items.AnyOf, f.Items.Enum
	}
	for _, option := range titled {
		e.Options = append(e.Options, EnumOption{option.Const, option.Title})
	}
	for i, value := range values {
		option := EnumOption{Value: value}
		if i < len(f.EnumNames) {
			option.Title = f.EnumNames[i]
		}
		e.Options = append(e.Options, option)
	}
	if f.Default == nil {
		return nil
	}
	if e.Multiple {
		return prefixPointer("/default", decode(f.Default, &e.Default))
	}
	chosen, err := stringValue(f.Default)
	if err != nil {
		return prefixPointer("/default", err)
	}
	e.Default = []string{chosen}
	return nil
}

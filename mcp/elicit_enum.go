package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An EnumSchema is a field that offers a choice. How it stands on the wire
// follows from what is set: options with titles are a oneOf (anyOf for several
// choices), others an enum.
type EnumSchema struct {
	Title       string
	Description string
	Options     []EnumOption
	// Multiple: several options can be chosen, and the value is a list (since
	// 2025-11-25).
	Multiple bool
	// MinItems and MaxItems bound how many, if Multiple.
	MinItems *int
	MaxItems *int
	// Default is what is chosen beforehand: at most one option unless Multiple
	// (since 2025-11-25).
	Default []string
	// EnumNames: titles stand in enumNames, the only form that 2025-06-18 has.
	// Not for Multiple.
	EnumNames bool
	Extra     Extra
}

// An EnumOption is one option of a choice.
type EnumOption struct {
	// Value is what the answer holds.
	Value string
	// Title is what the person sees; "" is the value.
	Title string
}

// enumFields is an EnumSchema as it stands on the wire.
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
			return within(fmt.Sprintf("/%d", i), err)
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

// AppendJSON appends the schema as a JSON object.
func (e *EnumSchema) AppendJSON(dst []byte) ([]byte, error) {
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
func (e EnumSchema) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

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
		return within("/default", decode(f.Default, &e.Default))
	}
	chosen, err := stringValue(f.Default)
	if err != nil {
		return within("/default", err)
	}
	e.Default = []string{chosen}
	return nil
}

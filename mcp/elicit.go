package mcp

import (
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// ElicitParams are the parameters of elicitation/create: a server asks the user of the client
// (since 2025-06-18).
type ElicitParams struct {
	// Mode is how to ask; "" means a form. It exists since 2025-11-25.
	Mode ElicitMode `json:"mode,omitzero"`
	// Message explains to the user what is asked for and why.
	Message string `json:"message"`
	// RequestedSchema is the schema of the form: an object of strings, numbers, booleans and
	// choices. [ElicitSchema] encodes and decodes it.
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
	// URL is where the client sends the user. It must not contain secrets.
	URL string `json:"url,omitzero"`
	// ElicitationID identifies the visit of a URL (2025-11-25 only).
	ElicitationID string `json:"elicitationId,omitzero"`
	Meta          Meta   `json:"_meta,omitzero"`
	Extra         Extra  `json:",embed"`
}

// An ElicitMode is a way to ask the user.
type ElicitMode string

// The modes.
const (
	// ElicitForm shows a form. A form must not ask for secrets.
	ElicitForm ElicitMode = "form"
	// ElicitURL sends the user to a URL (since 2025-11-25).
	ElicitURL ElicitMode = "url"
)

// An ElicitResult is the user's answer.
type ElicitResult struct {
	Action ElicitAction `json:"action"`
	// Content is the completed form, a JSON object. Only an accepted form has it.
	Content json.RawMessage `json:"content,omitzero"`
	Meta    Meta            `json:"_meta,omitzero"`
	Extra   Extra           `json:",embed"`
}

// An ElicitAction is what the user did with a question.
type ElicitAction string

// The actions.
const (
	ElicitAccept  ElicitAction = "accept"
	ElicitDecline ElicitAction = "decline"
	// ElicitCancel: the user closed the question without a choice.
	ElicitCancel ElicitAction = "cancel"
)

// ElicitationCompleteParams are the parameters of notifications/elicitation/complete (2025-11-25
// only): the interaction at a URL is complete.
type ElicitationCompleteParams struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitzero"`
	Extra         Extra  `json:",embed"`
}

// An ElicitSchema is the schema of a form: a flat object of simple fields, in display order.
// [ElicitParams].RequestedSchema has it as JSON.
type ElicitSchema struct {
	Fields []ElicitField
	// Extra holds other members, such as $schema (since 2025-11-25).
	Extra Extra
}

// An ElicitField is one field of a form.
type ElicitField struct {
	// Name is the name of the member in the answer.
	Name string
	// Required: the user must fill in the field.
	Required bool
	Schema   PrimitiveSchema
}

// PrimitiveSchema is the schema of one field: *[StringSchema], *[NumberSchema], *[BooleanSchema] or
// *[EnumSchema]. A schema of an unknown type is an *[UnknownSchema].
type PrimitiveSchema interface {
	json.Marshaler
	appender
	isPrimitiveSchema()
	// check returns a *DecodeError if a value does not fit.
	check(value json.RawMessage) error
}

// ParseElicitSchema decodes the schema of a form. The error is a *[DecodeError].
func ParseElicitSchema(data []byte) (*ElicitSchema, error) {
	schema := new(ElicitSchema)
	if err := schema.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return schema, nil
}

// An elicitObject is the JSON of a form's schema.
type elicitObject struct {
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties"`
	Required   []string        `json:"required,omitzero"`
	Extra      Extra           `json:",embed"`
}

// appendJSON appends the schema as a JSON object.
func (e *ElicitSchema) appendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", "object")
	w.member("properties", func(dst []byte) ([]byte, error) {
		properties := openObject(dst)
		for _, field := range e.Fields {
			properties.object(field.Name, field.Schema)
		}
		return properties.close(nil)
	})
	optionalStrings(w, "required", e.required())
	return w.close(e.Extra)
}

func (e *ElicitSchema) required() []string {
	var names []string
	for _, field := range e.Fields {
		if field.Required {
			names = append(names, field.Name)
		}
	}
	return names
}

// MarshalJSON returns the schema as a JSON object.
func (e ElicitSchema) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

// UnmarshalJSON reads the schema. The error is a *[DecodeError].
func (e *ElicitSchema) UnmarshalJSON(data []byte) error {
	var wire elicitObject
	if err := decode(data, &wire); err != nil {
		return err
	}
	if wire.Type != "object" {
		return &DecodeError{Pointer: "/type", Expected: `"object"`, Got: jsonscan.Quote(wire.Type)}
	}
	properties, err := jsonscan.ReadObject(wire.Properties)
	if err != nil {
		return prefixPointer("/properties", objectError(wire.Properties, err))
	}
	*e = ElicitSchema{Extra: wire.Extra, Fields: make([]ElicitField, 0, properties.Len())}
	for property := range properties.All() {
		name := property.Name()
		schema, err := decodePrimitive(property.Value)
		if err != nil {
			return prefixPointer(jsonscan.FormatPointer("properties", name), err)
		}
		e.Fields = append(e.Fields, ElicitField{Name: name, Required: slices.Contains(wire.Required, name), Schema: schema})
	}
	return nil
}

// Check returns nil if a completed form fits the schema: required fields are present, and every value fits
// its field. null for a field that is not required means that the field is absent. Other members are
// allowed unless Extra has additionalProperties with the value false. The error is a *[DecodeError] for
// the first problem.
func (e *ElicitSchema) Check(content json.RawMessage) error {
	object, err := jsonscan.ReadObject(content)
	if err != nil {
		return objectError(content, err)
	}
	known := make(map[string]bool, len(e.Fields))
	for _, field := range e.Fields {
		known[field.Name] = true
		pointer := jsonscan.FormatPointer(field.Name)
		value := object.Get(field.Name)
		switch {
		case value == nil && field.Required:
			return &DecodeError{Pointer: pointer, Expected: "a value, since the field is required", Got: "nothing"}
		case value == nil, string(value) == "null" && !field.Required:
			continue
		}
		if err := field.Schema.check(value); err != nil {
			return prefixPointer(pointer, err)
		}
	}
	if others, err := jsonscan.Find(e.Extra, "additionalProperties"); err != nil || string(others) != "false" {
		return nil //nolint:nilerr // Extra without JSON forbids nothing
	}
	for member := range object.All() {
		if name := member.Name(); !known[name] {
			return &DecodeError{Pointer: jsonscan.FormatPointer(name), Expected: "no such member", Got: jsonscan.KindOf(member.Value).String()}
		}
	}
	return nil
}

// ApplyElicitDefaults adds the defaults of optional fields that are missing in a completed form.
// content is an object or nil; its other members stay unchanged. The error is a *[DecodeError].
func ApplyElicitDefaults(schema, content json.RawMessage) (json.RawMessage, error) {
	if content == nil {
		content = json.RawMessage("{}")
	}
	answers, err := jsonscan.ReadObject(content)
	if err != nil {
		return nil, objectError(content, err)
	}
	var wire elicitObject
	if err := decode(schema, &wire); err != nil {
		return nil, err
	}
	properties, err := jsonscan.ReadObject(wire.Properties)
	if err != nil {
		return nil, prefixPointer("/properties", objectError(wire.Properties, err))
	}
	var missing []jsonscan.Edit
	for property := range properties.All() {
		name := property.Name()
		if answers.Get(name) != nil || slices.Contains(wire.Required, name) {
			continue
		}
		keywords, err := jsonscan.ReadObject(property.Value)
		if err != nil {
			return nil, prefixPointer(jsonscan.FormatPointer("properties", name), objectError(property.Value, err))
		}
		if value := keywords.Get("default"); value != nil {
			missing = append(missing, jsonscan.Edit{Name: name, Value: value})
		}
	}
	if len(missing) == 0 {
		return content, nil
	}
	filled, err := jsonscan.Splice(nil, content, missing...)
	if err != nil {
		return nil, syntaxError(err)
	}
	return filled, nil
}

package mcp

import (
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An ElicitSchema is the schema of a form: one level of simple fields, in the
// order they are shown. It is what [ElicitParams].RequestedSchema holds as JSON.
type ElicitSchema struct {
	Fields []ElicitField
	// Extra holds other members, such as $schema (since 2025-11-25).
	Extra Extra
}

// An ElicitField is one field of a form.
type ElicitField struct {
	// Name is the member of the answer.
	Name string
	// Required: the person must fill it in.
	Required bool
	Schema   PrimitiveSchema
}

// PrimitiveSchema is the schema of one field: *[StringSchema], *[NumberSchema],
// *[BooleanSchema], *[EnumSchema]; one that this package does not know is an
// *[UnknownSchema].
type PrimitiveSchema interface {
	Result
	isPrimitiveSchema()
	// check says what is wrong with a value, as a *DecodeError.
	check(value json.RawMessage) error
}

// ParseElicitSchema reads the schema of a form. The error is a *[DecodeError].
func ParseElicitSchema(data []byte) (*ElicitSchema, error) {
	schema := new(ElicitSchema)
	if err := schema.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return schema, nil
}

// elicitObject is a form's schema as it stands on the wire.
type elicitObject struct {
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties"`
	Required   []string        `json:"required,omitzero"`
	Extra      Extra           `json:",embed"`
}

// AppendJSON appends the schema as a JSON object.
func (e *ElicitSchema) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", "object")
	w.member("properties", func(dst []byte) ([]byte, error) {
		properties := openObject(dst)
		for _, field := range e.Fields {
			properties.object(field.Name, field.Schema)
		}
		return properties.close(nil)
	})
	w.optionalStrings("required", e.required())
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
func (e ElicitSchema) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

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
		return within("/properties", objectError(wire.Properties, err))
	}
	*e = ElicitSchema{Extra: wire.Extra, Fields: make([]ElicitField, 0, properties.Len())}
	for property := range properties.All() {
		name := property.Name()
		schema, err := decodePrimitive(property.Value)
		if err != nil {
			return within("/properties/"+escapePointer(name), err)
		}
		e.Fields = append(e.Fields, ElicitField{Name: name, Required: slices.Contains(wire.Required, name), Schema: schema})
	}
	return nil
}

// Check says whether a filled-in form fits: nothing that is required is missing,
// nothing is there that was not asked for, and every value fits its field. The
// error is a *[DecodeError] for the first thing that does not.
func (e *ElicitSchema) Check(content json.RawMessage) error {
	object, err := jsonscan.ReadObject(content)
	if err != nil {
		return objectError(content, err)
	}
	known := make(map[string]bool, len(e.Fields))
	for _, field := range e.Fields {
		known[field.Name] = true
		pointer := "/" + escapePointer(field.Name)
		value := object.Get(field.Name)
		if value == nil {
			if field.Required {
				return &DecodeError{Pointer: pointer, Expected: "a value, for the field is required", Got: "nothing"}
			}
			continue
		}
		if err := field.Schema.check(value); err != nil {
			return within(pointer, err)
		}
	}
	for member := range object.All() {
		if name := member.Name(); !known[name] {
			return &DecodeError{Pointer: "/" + escapePointer(name), Expected: "no such member", Got: jsonscan.KindOf(member.Value).String()}
		}
	}
	return nil
}

// ApplyElicitDefaults fills in the defaults of optional fields that a person has
// left out of a form. Everything else in content, an object or nil, stays as it
// is. The error is a *[DecodeError].
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
		return nil, within("/properties", objectError(wire.Properties, err))
	}
	var missing []jsonscan.Edit
	for property := range properties.All() {
		name := property.Name()
		if answers.Get(name) != nil || slices.Contains(wire.Required, name) {
			continue
		}
		keywords, err := jsonscan.ReadObject(property.Value)
		if err != nil {
			return nil, within("/properties/"+escapePointer(name), objectError(property.Value, err))
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

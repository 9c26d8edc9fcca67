package openapi

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A reading is how the text of a variable in a URI becomes the JSON of an argument.
type reading struct {
	kind   string // the type of the value, or of the elements of a list; "" for any
	list   bool
	nested bool // no text can give it: an object, a list of lists
}

// reading finds out what a schema wants.
func (s *source) reading(schema json.RawMessage) (reading, error) {
	var r reading
	members, err := s.object(schema)
	if err != nil {
		return r, err
	}
	if r.kind = typeOf(members); r.kind == "array" {
		r.list = true
		if members, err = s.object(members.Get("items")); err != nil {
			return r, err
		}
		r.kind = typeOf(members)
	}
	r.nested = r.kind == "object" || r.kind == "array"
	return r, nil
}

// object reads a schema, and follows it if it is a reference. One that is true or false
// has no members.
func (s *source) object(schema json.RawMessage) (*jsonscan.Members, error) {
	schema, err := s.follow(schema)
	if err != nil || jsonscan.KindOf(schema) != jsonscan.Object {
		return new(jsonscan.Members), err
	}
	members, err := jsonscan.ReadObject(schema)
	return &members, err
}

// typeOf is the first type of a schema but null, "" if it names none.
func typeOf(schema *jsonscan.Members) string {
	value := schema.Get("type")
	if name, ok := asString(value); ok {
		return name
	}
	var names []string
	if value == nil || json.Unmarshal(value, &names) != nil {
		return ""
	}
	for _, name := range names {
		if name != "null" {
			return name
		}
	}
	return ""
}

// scalar writes a text as JSON. What does not fit its type stays text, which the schema
// then refuses in words.
func (r reading) scalar(dst []byte, text string) []byte {
	kind := jsonscan.KindOf([]byte(text))
	fits := (r.kind == "integer" || r.kind == "number") && kind == jsonscan.Number || r.kind == "boolean" && kind == jsonscan.Bool
	if fits && jsonscan.Valid([]byte(text)) == nil {
		return append(dst, text...)
	}
	return jsonscan.AppendString(dst, text)
}

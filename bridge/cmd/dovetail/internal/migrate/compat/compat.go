// Package compat has what the program still uses in the form of the library that it used before. dovetail migrate wrote
// it. Remove it when nothing uses it any more.
package compat

import "encoding/json"

// JSON returns the JSON of a value: of a schema, of _meta or of structured content. It panics if the value has none.
func JSON(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

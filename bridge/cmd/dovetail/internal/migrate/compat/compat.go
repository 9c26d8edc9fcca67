// Package compat has what the program still uses in the form of the library that it used before. dovetail migrate wrote
// it. Remove it when nothing uses it any more.
package compat

import (
	"encoding/json"
	"iter"

	"github.com/dovetail-go/dovetail/mcp"
)

// JSON returns the JSON of a value: of a schema, of _meta or of structured content. It panics if the value has none.
func JSON(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// All returns all values of a list of a server, or the first error.
func All[T any](list iter.Seq2[T, error]) ([]T, error) {
	var values []T
	for value, err := range list {
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// IsTrue reports whether a hint of a tool is set, and true.
func IsTrue(hint *bool) bool { return hint != nil && *hint }

// URI returns the URI of contents.
func URI(contents mcp.ResourceContents) string {
	uri, _ := described(contents)
	return uri
}

// MIMEType returns the media type of contents.
func MIMEType(contents mcp.ResourceContents) string {
	_, mimeType := described(contents)
	return mimeType
}

func described(contents mcp.ResourceContents) (uri, mimeType string) {
	switch contents := contents.(type) {
	case *mcp.TextResourceContents:
		return contents.URI, contents.MIMEType
	case *mcp.BlobResourceContents:
		return contents.URI, contents.MIMEType
	}
	return "", ""
}

package mcp

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Extra holds the members of an object that this package does not know, as one
// JSON object in the order they came; nil if there are none. It must not name a
// member that has a field of its own.
type Extra = jsontext.Value

// encoding writes Go values as the protocol wants them: the same bytes each
// time, strings and numbers that were raw as they came.
var encoding = json.JoinOptions(
	json.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	jsontext.AllowInvalidUTF8(true), // becomes U+FFFD
)

// appendFields appends a struct by its tags, for objects that are not sent
// often.
func appendFields(dst []byte, fields any) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	if err := json.MarshalWrite(buf, fields, encoding); err != nil {
		return dst, fmt.Errorf("mcp: %w", err)
	}
	return buf.Bytes(), nil
}

// decoding fills the interfaces of this package.
var decoding = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFunc(func(data []byte, content *Content) (err error) {
		*content, err = DecodeContent(data)
		return err
	}),
	json.UnmarshalFunc(func(data []byte, contents *ResourceContents) (err error) {
		*contents, err = decodeResourceContents(data)
		return err
	}),
))

// decode decodes an object by the tags of a struct: names in their exact case,
// no name twice.
func decode(data []byte, fields any) error {
	if err := json.Unmarshal(data, fields, decoding); err != nil {
		return decodeError(err)
	}
	return nil
}

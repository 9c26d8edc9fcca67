package openapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A document is an OpenAPI document, read twice. kin-openapi knows its objects and
// follows the references between them. Schemas are taken from the text as it stands:
// Go structs would lose the order of their properties, the digits of large numbers
// and the keywords that the structs do not know.
type document struct {
	*openapi3.T
	source *source
}

// parseDocument reads a document in JSON or YAML.
func parseDocument(data []byte) (d *document, err error) {
	if len(data) > maxDocument {
		return nil, documentError("the document has %d bytes, expected at most %d", len(data), maxDocument)
	}
	// The parsers are not ours, and the document may be anybody's.
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, documentError("the document cannot be read: %.256v", p)
		}
	}()
	text, err := toJSON(data)
	if err != nil {
		return nil, err
	}
	root, err := jsonscan.ReadObject(text)
	if err != nil {
		return nil, documentError("the document is no object: %v", err)
	}
	if err := checkVersion(&root); err != nil {
		return nil, err
	}
	if text, err = withoutStrayPaths(text, root.Get("paths")); err != nil {
		return nil, err
	}
	model := new(openapi3.T)
	if err := json.Unmarshal(text, model); err != nil {
		return nil, documentError("%.1024v", err)
	}
	if err := openapi3.NewLoader().ResolveRefsIn(model, nil); err != nil {
		return nil, documentError("%.1024v", err)
	}
	return &document{model, newSource(text)}, nil
}

// toJSON turns YAML into JSON and refuses what nests too deep.
func toJSON(data []byte) (json.RawMessage, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if jsonscan.KindOf(data) != jsonscan.Object {
		var err error
		if data, err = yamlToJSON(data); err != nil {
			return nil, documentError("the document is neither a JSON object nor YAML: %.1024v", err)
		}
	}
	if len(data) > maxDocument {
		return nil, documentError("the document has %d bytes once its aliases are written out, expected at most %d", len(data), maxDocument)
	}
	if err := jsonscan.Valid(data); err != nil {
		return nil, documentError("the document is not JSON: %v", err)
	}
	if deepest := nesting(data); deepest > maxNesting {
		return nil, documentError("the document nests %d deep, expected at most %d", deepest, maxNesting)
	}
	return data, nil
}

// nesting returns how deep arrays and objects nest in a valid JSON text.
func nesting(text []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}

func checkVersion(root *jsonscan.Members) error {
	if root.Get("swagger") != nil {
		return documentError("this is a Swagger 2.0 document: convert it to OpenAPI 3.0 or 3.1 first")
	}
	version, ok := asString(root.Get("openapi"))
	if !ok {
		return documentError(`the document has no "openapi" member that names its version, such as "3.1.0"`)
	}
	if !strings.HasPrefix(version, "3.0.") && !strings.HasPrefix(version, "3.1.") {
		return documentError("the document is of OpenAPI %s, expected 3.0 or 3.1", jsonscan.Quote(version))
	}
	return nil
}

// withoutStrayPaths drops what stands among the paths and is none, which the parser
// would refuse together with all the rest.
func withoutStrayPaths(text, paths json.RawMessage) (json.RawMessage, error) {
	if paths == nil {
		return text, nil
	}
	items, err := jsonscan.ReadObject(paths)
	if err != nil {
		return nil, documentError("its paths are no object: %v", err)
	}
	kept, stray := []byte{'{'}, false
	for item := range items.All() {
		if jsonscan.KindOf(item.Value) != jsonscan.Object {
			stray = true
			continue
		}
		kept = appendMember(kept, item.Key, item.Value)
	}
	if !stray {
		return text, nil
	}
	return jsonscan.Splice(nil, text, jsonscan.Edit{Name: "paths", Value: append(kept, '}')})
}

// paths are those of the document, in its order.
func (d *document) paths() (jsonscan.Members, error) {
	if d.Paths == nil {
		return jsonscan.Members{}, nil
	}
	text, err := d.source.at("paths")
	if err != nil {
		return jsonscan.Members{}, documentError("%v", err)
	}
	return jsonscan.ReadObject(text)
}

// appendMember appends a member to an object that is being written.
func appendMember(object, key, value []byte) []byte {
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	object = append(append(object, key...), ':')
	return append(object, value...)
}

// refersAlone says whether what stands beside a $ref counts for nothing, as it does
// until OpenAPI 3.0.
func (d *document) refersAlone() bool { return strings.HasPrefix(d.OpenAPI, "3.0.") }

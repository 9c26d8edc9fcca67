package openapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A document is an OpenAPI document, read twice. The model of kin-openapi resolves the
// references between its objects. Schemas are taken from the JSON text, because the model loses
// the order of properties, the digits of large numbers and unknown keywords.
type document struct {
	*openapi3.T
	source *source
}

// parseDocument reads a document in JSON or YAML.
func parseDocument(data []byte) (d *document, err error) {
	if len(data) > maxDocument {
		return nil, documentError("the document has %d bytes, expected at most %d", len(data), maxDocument)
	}
	// The parsers may panic on an invalid document.
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
		return nil, documentError("the document is not an object: %v", err)
	}
	if err := checkVersion(&root); err != nil {
		return nil, err
	}
	if text, err = withoutInvalidPaths(text, root.Get("paths")); err != nil {
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

// toJSON converts YAML to JSON and checks the size and nesting.
func toJSON(data []byte) (json.RawMessage, error) {
	data = jsonscan.TrimBOM(data)
	if jsonscan.KindOf(data) != jsonscan.Object {
		var err error
		if data, err = yamlToJSON(data); err != nil {
			return nil, documentError("the document is neither a JSON object nor YAML: %.1024v", err)
		}
	}
	if len(data) > maxDocument {
		return nil, documentError("the document has %d bytes with its aliases expanded, expected at most %d", len(data), maxDocument)
	}
	if err := jsonscan.Valid(data); err != nil {
		return nil, documentError("the document is not JSON: %v", err)
	}
	if deepest := nesting(data); deepest > maxNesting {
		return nil, documentError("the document nests %d deep, expected at most %d", deepest, maxNesting)
	}
	return data, nil
}

// nesting returns the depth of arrays and objects in a valid JSON text.
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

// withoutInvalidPaths drops paths that are not objects, because the parser would reject the whole
// document.
func withoutInvalidPaths(text, paths json.RawMessage) (json.RawMessage, error) {
	if paths == nil {
		return text, nil
	}
	items, err := jsonscan.ReadObject(paths)
	if err != nil {
		return nil, documentError("its paths are not an object: %v", err)
	}
	kept, removed := []byte{'{'}, false
	for item := range items.All() {
		if jsonscan.KindOf(item.Value) != jsonscan.Object {
			removed = true
			continue
		}
		kept = appendMember(kept, item.Key, item.Value)
	}
	if !removed {
		return text, nil
	}
	return jsonscan.Splice(nil, text, jsonscan.Edit{Name: "paths", Value: append(kept, '}')})
}

// paths returns the paths in the order of the document.
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

// appendMember appends a member to an incomplete JSON object.
func appendMember(object, key, value []byte) []byte {
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	object = append(append(object, key...), ':')
	return append(object, value...)
}

// ignoresRefSiblings reports whether the siblings of a $ref are ignored, as in OpenAPI 3.0.
func (d *document) ignoresRefSiblings() bool { return strings.HasPrefix(d.OpenAPI, "3.0.") }

// A source finds values of a JSON text by JSON Pointer (RFC 6901). It follows references on the
// path.
type source struct {
	root    json.RawMessage
	objects map[string]map[string]json.RawMessage // cache of the members of objects, by pointer
}

func newSource(text json.RawMessage) *source {
	return &source{root: text, objects: make(map[string]map[string]json.RawMessage)}
}

// at returns the value at a path of member names.
func (s *source) at(names ...string) (json.RawMessage, error) {
	_, value, err := s.find(jsonscan.FormatPointer(names...))
	return value, err
}

// find returns the value at a pointer, and the direct pointer to it, without references on the
// path. The value itself may be a reference.
func (s *source) find(pointer string) (direct string, value json.RawMessage, err error) {
	value = s.root
	for hops, rest := 0, pointer; rest != ""; {
		if len(rest) > maxPointer || rest[0] != '/' {
			return "", nil, fmt.Errorf("%s is not a JSON Pointer: it must begin with / and have at most %d bytes", jsonscan.Quote(pointer), maxPointer)
		}
		token, _, _ := strings.Cut(rest[1:], "/")
		child, err := s.child(direct, value, token)
		if err != nil {
			return "", nil, err
		}
		if child != nil {
			direct, value, rest = direct+"/"+token, child, rest[1+len(token):]
			continue
		}
		target, ok, err := s.reference(direct, value)
		switch {
		case err != nil:
			return "", nil, err
		case !ok:
			return "", nil, fmt.Errorf("the document has no value at #%s", jsonscan.Quote(pointer))
		}
		if hops++; hops > maxReferences {
			return "", nil, fmt.Errorf("the references from #%s are circular", jsonscan.Quote(pointer))
		}
		direct, value, rest = "", s.root, target+rest
	}
	return direct, value, nil
}

// child returns a member or element of the value at a pointer, or nil.
func (s *source) child(pointer string, value json.RawMessage, token string) (json.RawMessage, error) {
	if jsonscan.KindOf(value) != jsonscan.Object {
		return jsonscan.Child(value, token)
	}
	members, err := s.members(pointer, value)
	return members[jsonscan.UnescapeToken(token)], err
}

func (s *source) members(pointer string, object json.RawMessage) (map[string]json.RawMessage, error) {
	if members, ok := s.objects[pointer]; ok {
		return members, nil
	}
	read, err := jsonscan.ReadObject(object)
	if err != nil {
		return nil, err
	}
	members := make(map[string]json.RawMessage, read.Len())
	for m := range read.All() {
		members[m.Name()] = m.Value
	}
	s.objects[pointer] = members
	return members, nil
}

// reference returns the target of a reference. ok is false if the value at pointer is not a
// reference.
func (s *source) reference(pointer string, value json.RawMessage) (target string, ok bool, err error) {
	if jsonscan.KindOf(value) != jsonscan.Object {
		return "", false, nil
	}
	members, err := s.members(pointer, value)
	if err != nil {
		return "", false, err
	}
	ref, ok := asString(members["$ref"])
	if !ok {
		return "", false, nil
	}
	target, err = pointerOf(ref)
	return target, err == nil, err
}

// follow returns the schema that a reference finally refers to. Siblings of $ref are ignored.
func (s *source) follow(value json.RawMessage) (json.RawMessage, error) {
	for range maxReferences {
		if jsonscan.KindOf(value) != jsonscan.Object {
			return value, nil
		}
		members, err := jsonscan.ReadObject(value)
		if err != nil {
			return nil, err
		}
		ref, ok := asString(members.Get("$ref"))
		if !ok {
			return value, nil
		}
		pointer, err := pointerOf(ref)
		if err != nil {
			return nil, err
		}
		if _, value, err = s.find(pointer); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the references from %.256s are circular", value)
}

// pointerOf returns the JSON Pointer of a reference.
func pointerOf(ref string) (string, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", fmt.Errorf("the reference %s leads to another document, which is not supported", jsonscan.Quote(ref))
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return "", fmt.Errorf("the reference %s is not a JSON Pointer such as #/components/schemas/Pet", jsonscan.Quote(ref))
	}
	return pointer, nil
}

// asString decodes a JSON string.
func asString(raw json.RawMessage) (string, bool) {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", false
	}
	return jsonscan.Unquote(raw), true
}

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A library is all the documents that a schema may refer to. It is the loader
// of the general validator, and loads nothing from anywhere else.
type library struct {
	resources map[string]json.RawMessage
	patterns  patterns
	url       string   // of the document that is prepared
	count     int      // schemas so far
	anchors   []string // the URLs of the schemas with a $dynamicAnchor
}

// Load is called for a reference that leads out of the documents loaded so far.
func (l *library) Load(url string) (any, error) {
	text, ok := l.resources[url]
	if !ok {
		return nil, &CompileError{Reason: "the schema refers to " + strconv.Quote(cut(url)) + ", which is not given and is never fetched"}
	}
	return l.read(url, text)
}

// read decodes a document and prepares it.
func (l *library) read(url string, text []byte) (any, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	document, err := decodeAny(text)
	if err != nil {
		return nil, &CompileError{Reason: err.Error()}
	}
	l.url = url
	return document, l.prepare(document, "", 0)
}

// prepare walks the schemas of a document, counts them, refuses dialects that
// are not supported, and takes format out: it is an annotation, which the
// general validator would assert in draft-07.
func (l *library) prepare(value any, pointer string, depth int) error {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if err := l.prepare(item, pointer+"/"+strconv.Itoa(i), depth); err != nil {
				return err
			}
		}
	case map[string]any:
		return l.prepareObject(value, pointer, depth)
	}
	return nil
}

func (l *library) prepareObject(schema map[string]any, pointer string, depth int) error {
	if l.count++; l.count > MaxSubschemas {
		return &CompileError{Pointer: pointer, Reason: fmt.Sprintf("a schema may consist of %d schemas", MaxSubschemas)}
	}
	if depth > MaxSchemaDepth {
		return &CompileError{Pointer: pointer, Reason: fmt.Sprintf("a schema may be nested %d deep", MaxSchemaDepth)}
	}
	if err := l.checkDialect(schema, pointer); err != nil {
		return err
	}
	if _, ok := schema["$dynamicAnchor"].(string); ok {
		l.anchors = append(l.anchors, l.url+"#"+(&url.URL{Path: pointer}).EscapedPath())
	}
	if err := l.checkPatterns(schema, pointer); err != nil {
		return err
	}
	if _, ok := schema["format"].(string); ok {
		delete(schema, "format")
	}
	for keyword, value := range schema {
		at := pointer + "/" + escapeStep(keyword)
		switch keyword {
		case "const", "enum", "default", "examples":
			continue // no schemas in there
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			named, _ := value.(map[string]any)
			for name, part := range named {
				if err := l.prepare(part, at+"/"+escapeStep(name), depth+1); err != nil {
					return err
				}
			}
		default:
			if err := l.prepare(value, at, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDialect refuses a $schema that is none of the supported ones and is not
// among the resources. It counts at the root of a document or of a part with
// an $id.
func (l *library) checkDialect(schema map[string]any, pointer string) error {
	dialect, ok := schema["$schema"].(string)
	if !ok || pointer != "" && schema["$id"] == nil {
		return nil
	}
	if dialectNamed(dialect) != unknownDialect {
		return nil
	}
	if _, given := l.resources[strings.TrimSuffix(dialect, "#")]; given {
		return nil
	}
	return &CompileError{Pointer: pointer + "/$schema", Reason: "the dialect " + strconv.Quote(cut(dialect)) + " is not supported, only JSON Schema 2020-12 and draft-07 are"}
}

// checkPatterns refuses what RE2 cannot hold and what is too large, with a better message than the
// metaschema's.
func (l *library) checkPatterns(schema map[string]any, pointer string) error {
	if pattern, ok := schema["pattern"].(string); ok {
		if _, err := l.patterns.compile(pattern); err != nil {
			return &CompileError{Pointer: pointer + "/pattern", Reason: err.Error()}
		}
	}
	named, _ := schema["patternProperties"].(map[string]any)
	for pattern := range named {
		if _, err := l.patterns.compile(pattern); err != nil {
			return &CompileError{Pointer: pointer + "/patternProperties", Reason: err.Error()}
		}
	}
	return nil
}

// decodeAny decodes JSON with its numbers as they are written.
func decodeAny(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

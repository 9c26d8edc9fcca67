package entrycheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// outputSchema checks the schema of a tool's structured content. Clients compile it when they read the list, and some
// refuse the list if they cannot.
func outputSchema(c *checker, path string, raw []byte) ([]byte, error) {
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return nil, expected("an object", raw)
	}
	schema, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, err
	}
	edits, err := c.rootOf(path, &schema)
	if err != nil {
		return nil, err
	}
	if len(edits) > 0 {
		if raw, err = jsonscan.Splice(nil, raw, edits...); err != nil {
			return nil, err
		}
	}
	return raw, compile(raw)
}

// compile returns an error if a client cannot compile a schema. Clients do not compare the schema with its metaschema, so
// much of what is not valid is no error.
func compile(raw []byte) error {
	var root map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return err
	}
	k := compiler{anchors: map[string]bool{}}
	if err := k.schema(root); err != nil {
		return err
	}
	if k.ids > 1 || k.ids == 1 && root["$id"] == nil {
		return nil // references are relative to the ids
	}
	for _, ref := range k.references {
		if err := k.resolve(root, ref); err != nil {
			return fmt.Errorf("$ref: %w", err)
		}
	}
	return nil
}

// A compiler collects what references may refer to.
type compiler struct {
	references []string
	anchors    map[string]bool
	ids        int // how many schemas have an $id
}

// A keyword says which value a keyword must have.
type keyword int

const (
	textValue keyword = iota
	numberValue
	boolValue
	objectValue
	listValue
	enumValue // an array with elements
	schemaValue
	schemaList
	schemaOrList
	schemasByName // an object of schemas
	typeValue     // the name of a type, or an array of them
	patternValue  // a regular expression of ECMAScript
	refValue
	idValue
	anchorValue
	noValue // the keyword must be absent
)

var keywords = map[string]keyword{
	"$ref": refValue, "$id": idValue, "$anchor": anchorValue, "$dynamicAnchor": anchorValue,
	"id":   noValue, // draft-04
	"type": typeValue, "enum": enumValue, "required": listValue, "pattern": patternValue, "nullable": boolValue, "uniqueItems": boolValue,
	"minimum": numberValue, "maximum": numberValue, "exclusiveMinimum": numberValue, "exclusiveMaximum": numberValue, "multipleOf": numberValue,
	"minLength": numberValue, "maxLength": numberValue, "minItems": numberValue, "maxItems": numberValue,
	"minProperties": numberValue, "maxProperties": numberValue, "minContains": numberValue, "maxContains": numberValue,
	"additionalProperties": schemaValue, "unevaluatedProperties": schemaValue, "additionalItems": schemaValue, "unevaluatedItems": schemaValue,
	"contains": schemaValue, "propertyNames": schemaValue, "not": schemaValue, "if": schemaValue, "then": schemaValue, "else": schemaValue,
	"anyOf": schemaList, "oneOf": schemaList, "allOf": schemaList, "prefixItems": schemaList, "items": schemaOrList,
	"properties": schemasByName, "patternProperties": schemasByName, "$defs": schemasByName, "definitions": schemasByName,
	"dependentSchemas": schemasByName, "dependencies": objectValue, "dependentRequired": objectValue,
}

// schema checks a schema and the schemas in it.
func (k *compiler) schema(value any) error {
	schema, ok := value.(map[string]any)
	if _, isBool := value.(bool); !ok && !isBool {
		return errors.New("expected a schema, which is an object or a boolean")
	}
	if schema["nullable"] == true && schema["type"] == nil {
		return errors.New("nullable: it needs a type beside it")
	}
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		if kind, known := keywords[name]; known {
			if err := k.keyword(kind, schema[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (k *compiler) keyword(kind keyword, value any) error {
	text, isText := value.(string)
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	_, isNumber := value.(json.Number)
	_, isBool := value.(bool)
	switch kind {
	case numberValue:
		return check(isNumber, "a number")
	case boolValue:
		return check(isBool, "a boolean")
	case objectValue:
		return check(isObject, "an object")
	case listValue:
		return check(isList, "an array")
	case enumValue:
		return check(len(list) > 0, "an array with values")
	case noValue:
		return errors.New("it is not a keyword since draft-06")
	case typeValue:
		return checkTypes(value)
	case schemaValue:
		return k.schema(value)
	case schemaList, schemaOrList:
		if !isList && kind == schemaOrList {
			return k.schema(value)
		}
		for _, element := range list {
			if err := k.schema(element); err != nil {
				return err
			}
		}
		return check(isList, "an array")
	case schemasByName:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if err := k.schema(object[name]); err != nil {
				return fmt.Errorf("%s: %w", jsonscan.Quote(name), err)
			}
		}
		return check(isObject, "an object")
	case patternValue:
		if isText {
			return checkPattern(text)
		}
	case refValue:
		k.references = append(k.references, text)
	case anchorValue:
		k.anchors[text] = true
	case idValue:
		k.ids++
	}
	return check(isText, "a string")
}

func check(ok bool, what string) error {
	if !ok {
		return errors.New("expected " + what)
	}
	return nil
}

func checkTypes(value any) error {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, name := range list {
		switch name {
		case "object", "array", "string", "number", "integer", "boolean", "null":
		default:
			return errors.New("expected the name of a type")
		}
	}
	return nil
}

// resolve returns an error if a reference leads to nothing. Nothing is fetched.
func (k *compiler) resolve(root map[string]any, ref string) error {
	place, fragment, _ := strings.Cut(ref, "#")
	switch {
	case place != "" && (k.ids > 0 || place == "http://json-schema.org/draft-07/schema"):
		return nil
	case place != "":
		return fmt.Errorf("%s is another document", jsonscan.Quote(ref))
	case fragment == "" || k.anchors[fragment]:
		return nil
	}
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	tokens, err := jsonscan.ParsePointer(fragment)
	if err != nil {
		return fmt.Errorf("%s leads to nothing", jsonscan.Quote(ref))
	}
	var at any = root
	for _, token := range tokens {
		switch value := at.(type) {
		case map[string]any:
			at = value[token]
		case []any:
			i, ok := jsonscan.TokenIndex(token)
			if at = nil; ok && i < len(value) {
				at = value[i]
			}
		default:
			at = nil
		}
	}
	switch at.(type) {
	case map[string]any, bool:
		return nil
	}
	return fmt.Errorf("%s leads to nothing", jsonscan.Quote(ref))
}

// checkPattern returns an error for what other regular expressions have and those of ECMAScript, with the flag u, do
// not: flags, other names of groups, and escapes of characters that need none.
func checkPattern(pattern string) error {
	inClass := false
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i+1:]
		switch c := pattern[i]; {
		case c == '\\':
			if rest == "" || !strings.ContainsRune(`^$\.*+?()[]{}|/dDwWsSbBfnrtvcxukpP0123456789`, rune(rest[0])) && !(inClass && rest[0] == '-') {
				return fmt.Errorf("%s: an escape that ECMAScript does not have", jsonscan.Quote(pattern))
			}
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
		case c == '(' && strings.HasPrefix(rest, "?"):
			if len(rest) < 2 || !strings.ContainsRune(":=!<", rune(rest[1])) {
				return fmt.Errorf("%s: a group that ECMAScript does not have", jsonscan.Quote(pattern))
			}
		}
	}
	return nil
}

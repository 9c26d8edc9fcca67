package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A tagItem is one keyword of a jsonschema tag, with its value as written.
type tagItem struct{ keyword, text string }

// nullable is the key in Schema.Extras of a schema that also accepts null. No keyword has a space.
const nullable = "or null"

// tagKeywords lists the JSON types that a keyword of a tag applies to.
var tagKeywords = map[string][]string{
	"minLength": {"string"}, "maxLength": {"string"}, "pattern": {"string"}, "format": {"string"},
	"minimum": {"number", "integer"}, "maximum": {"number", "integer"}, "multipleOf": {"number", "integer"},
	"exclusiveMinimum": {"number", "integer"}, "exclusiveMaximum": {"number", "integer"},
	"minItems": {"array"}, "maxItems": {"array"}, "uniqueItems": {"array"},
	"minProperties": {"object"}, "maxProperties": {"object"},
	"enum": {"string", "number", "integer", "boolean", ""},
}

// keywordNames lists the keywords of a tag, also for messages.
const keywordNames = "title, description, enum, default, example, format, pattern, minLength, maxLength, minimum, maximum, " +
	"exclusiveMinimum, exclusiveMaximum, multipleOf, minItems, maxItems, uniqueItems, minProperties, maxProperties, " +
	"required, nullable, x-…"

// isKeyword reports whether a tag may contain a keyword.
func isKeyword(name string) bool {
	return len(name) > 2 && strings.HasPrefix(name, "x-") || slices.Contains(strings.Split(keywordNames, ", "), name)
}

// isFlag reports whether a keyword is written without a value.
func isFlag(name string) bool {
	return name == "required" || name == "nullable" || name == "uniqueItems"
}

// isDescription reports whether a tag is a description, not a list of keywords. A list begins with a
// word and an equals sign, or is or begins with a flag and a comma without a space after it.
func isDescription(tag string) bool {
	if word, _, ok := strings.Cut(tag, "="); ok && !strings.ContainsAny(word, " \t\n") {
		return false
	}
	first, rest, more := strings.Cut(tag, ",")
	return !isFlag(first) || more && strings.HasPrefix(rest, " ")
}

// parseTag returns the description or the keywords of a jsonschema tag.
func parseTag(tag, path string) (description string, items []tagItem, err error) {
	if tag == "" {
		return "", nil, nil
	}
	if isDescription(tag) {
		_, rest, _ := strings.Cut(tag, ",")
		for text := range strings.SplitSeq(rest, ",") {
			if keyword, _, hasValue := strings.Cut(text, "="); isKeyword(keyword) && (hasValue || isFlag(keyword)) {
				return "", nil, &TypeError{Path: path, Reason: fmt.Sprintf("the jsonschema tag is a description that contains the keyword %q; "+
					"write the description in another tag, as in description:\"…\" jsonschema:%q", keyword, text)}
			}
		}
		return tag, nil, nil
	}
	for _, text := range splitUnescaped(tag) {
		keyword, value, hasValue := strings.Cut(text, "=")
		switch {
		case !isKeyword(keyword) || hasValue && isFlag(keyword) && keyword != "uniqueItems":
			hint := "a comma inside a value is written \\\\,"
			if len(items) == 0 {
				hint = "a description that begins with a word and = is written in the tag description"
			}
			return "", nil, &TypeError{Path: path, Reason: fmt.Sprintf("the jsonschema tag has no keyword %q; the keywords are %s; %s", keyword, keywordNames, hint)}
		case !hasValue && !isFlag(keyword):
			return "", nil, &TypeError{Path: path, Reason: fmt.Sprintf("the jsonschema tag must give %s a value", keyword)}
		}
		items = append(items, tagItem{keyword, value})
	}
	return "", items, nil
}

func splitUnescaped(tag string) []string {
	var parts []string
	for part := range strings.SplitSeq(tag, ",") {
		if n := len(parts); n > 0 && strings.HasSuffix(parts[n-1], `\`) {
			parts[n-1] = strings.TrimSuffix(parts[n-1], `\`) + "," + part
			continue
		}
		parts = append(parts, part)
	}
	return parts
}

// applyTags applies the tags of the field f to its schema s. The library reads tags too, but ignores
// errors and some types.
func applyTags(s *jsonschema.Schema, f *field) error {
	s.Description = cmp.Or(f.description, s.Description)
	if f.stringified {
		*s = jsonschema.Schema{Type: "string", Pattern: numberPattern(f.typ), Description: s.Description}
	}
	for i, item := range f.tag {
		repeated := slices.ContainsFunc(f.tag[:i], func(other tagItem) bool { return other.keyword == item.keyword })
		target := s
		if s.Type == "array" && s.Items != nil && !aboutLists(item.keyword) {
			target = s.Items
		}
		if err := applyItem(target, item, repeated); err != nil {
			return &TypeError{Path: f.path, Reason: "the jsonschema tag: " + err.Error()}
		}
	}
	applyExtras(s, f.extras)
	return nil
}

// applyExtras applies a tag jsonschema_extras as the library does: name=value, where true and false are
// booleans, and repeated texts a list.
func applyExtras(s *jsonschema.Schema, tag string) {
	for _, text := range splitUnescaped(tag) {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			continue
		}
		switch before := s.Extras[name].(type) {
		case string:
			setExtra(s, name, []string{before, value})
		case []string:
			setExtra(s, name, append(before, value))
		default:
			if value == "true" || value == "false" {
				setExtra(s, name, value == "true")
			} else {
				setExtra(s, name, value)
			}
		}
	}
}

// numberPattern returns the pattern of a number that is encoded as a string.
func numberPattern(t reflect.Type) string {
	switch deref(t).Kind() {
	case reflect.Float32, reflect.Float64, reflect.String: // a json.Number
		return `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`
	}
	return `^-?(0|[1-9][0-9]*)$`
}

func aboutLists(keyword string) bool {
	switch keyword {
	case "enum":
		return false
	case "title", "description", "default", "example", "required", "nullable":
		return true
	}
	types, known := tagKeywords[keyword]
	return !known || types[0] == "array"
}

func applyItem(s *jsonschema.Schema, item tagItem, repeated bool) error {
	if types, ok := tagKeywords[item.keyword]; ok && !slices.Contains(types, s.Type) {
		return fmt.Errorf("%s is not for a value of type %q", item.keyword, typeName(s))
	}
	switch item.keyword {
	case "title":
		s.Title = item.text
	case "description":
		s.Description = item.text
	case "pattern":
		s.Pattern = item.text
	case "format":
		s.Format = item.text
	case "uniqueItems":
		s.UniqueItems = item.text != "false"
	case "required":
	case "nullable":
		setExtra(s, nullable, true)
	case "enum":
		if !repeated {
			s.Enum = nil
		}
		value, err := literal(s, item)
		s.Enum = append(s.Enum, value)
		return err
	case "example":
		value, err := literal(s, item)
		s.Examples = append(s.Examples, value)
		return err
	case "default":
		return applyDefault(s, item)
	default:
		if strings.HasPrefix(item.keyword, "x-") {
			setExtra(s, item.keyword, item.text)
			return nil
		}
		return applyBound(s, item)
	}
	return nil
}

func applyBound(s *jsonschema.Schema, item tagItem) error {
	numbers := map[string]*json.Number{
		"minimum": &s.Minimum, "maximum": &s.Maximum, "multipleOf": &s.MultipleOf,
		"exclusiveMinimum": &s.ExclusiveMinimum, "exclusiveMaximum": &s.ExclusiveMaximum,
	}
	if number, ok := numbers[item.keyword]; ok {
		if !isJSON(item.text, jsonscan.Number) {
			return fmt.Errorf("%s must be a number, not %q", item.keyword, item.text)
		}
		*number = json.Number(item.text)
		return nil
	}
	count, err := strconv.ParseUint(item.text, 10, 31)
	if err != nil {
		return fmt.Errorf("%s must be a whole number, not %q", item.keyword, item.text)
	}
	counts := map[string]**uint64{
		"minLength": &s.MinLength, "maxLength": &s.MaxLength, "minItems": &s.MinItems,
		"maxItems": &s.MaxItems, "minProperties": &s.MinProperties, "maxProperties": &s.MaxProperties,
	}
	*counts[item.keyword] = &count
	return nil
}

// applyDefault sets the default. Repeated defaults of a list become its elements.
func applyDefault(s *jsonschema.Schema, item tagItem) error {
	if s.Type != "array" || isJSON(item.text, jsonscan.Array) {
		value, err := literal(s, item)
		s.Default = value
		return err
	}
	value, err := literal(s.Items, item)
	if err != nil {
		return err
	}
	list, _ := s.Default.(json.RawMessage)
	if list == nil {
		s.Default = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
	} else {
		s.Default = slices.Concat(list[:len(list)-1], json.RawMessage(","), value, json.RawMessage("]"))
	}
	return nil
}

// literal returns the value of a tag as JSON of the type of s.
func literal(s *jsonschema.Schema, item tagItem) (json.RawMessage, error) {
	var kind jsonscan.Kind
	switch s.Type {
	case "string":
		return jsonscan.AppendString(nil, item.text), nil
	case "integer", "number":
		kind = jsonscan.Number
	case "boolean":
		kind = jsonscan.Bool
	case "array":
		kind = jsonscan.Array
	case "object":
		kind = jsonscan.Object
	default:
		if jsonscan.Valid([]byte(item.text)) == nil {
			return json.RawMessage(item.text), nil
		}
		if s.Ref == "" {
			return jsonscan.AppendString(nil, item.text), nil
		}
		kind = jsonscan.Object
	}
	if !isJSON(item.text, kind) {
		return nil, fmt.Errorf("%s must be JSON of type %s, not %q", item.keyword, typeName(s), item.text)
	}
	return json.RawMessage(item.text), nil
}

func isJSON(text string, kind jsonscan.Kind) bool {
	scanner := jsonscan.New([]byte(text))
	return scanner.Kind() == kind && jsonscan.Valid([]byte(text)) == nil
}

func typeName(s *jsonschema.Schema) string {
	switch {
	case s.Ref != "":
		return "object"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func setExtra(s *jsonschema.Schema, key string, value any) {
	if s.Extras == nil {
		s.Extras = map[string]any{}
	}
	s.Extras[key] = value
}

package schema

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/invopop/jsonschema"
	orderedmap "github.com/pb33f/ordered-map/v2"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A document is the written schema of a type: types that occur once are described in place,
// the others in $defs.
type document struct {
	defs  map[string]*jsonschema.Schema
	types []reflect.Type
	root  *jsonschema.Schema
	self  string            // the number of the root's type
	names map[string]string // of the definitions, by number
	order []string          // the numbers of the definitions, in order of appearance
	uses  map[string]int
	loops map[string]bool // types that contain themselves
	err   error
}

func newDocument(r *reflection, root *jsonschema.Schema) *document {
	d := &document{
		defs: r.defs, types: r.types, root: root,
		names: map[string]string{}, uses: map[string]int{}, loops: map[string]bool{},
	}
	if number, ok := d.referred(root); ok {
		d.self, d.root = number, d.merged(root)
	}
	d.count(d.root, []string{d.self})
	var named []reflect.Type
	for _, number := range d.order {
		named = append(named, d.typeOf(number))
	}
	for i, name := range uniqueNames(named) {
		d.names[d.order[i]] = name
	}
	return d
}

// referred returns the number of the type that s refers to. A reference in a schema of a
// SchemaProvider may have another target.
func (d *document) referred(s *jsonschema.Schema) (string, bool) {
	number, ok := referred(s)
	return number, ok && d.defs[number] != nil
}

func (d *document) typeOf(number string) reflect.Type {
	n, _ := strconv.Atoi(number)
	return d.types[n]
}

// count counts the uses of each type and finds types that contain themselves.
func (d *document) count(s *jsonschema.Schema, open []string) {
	if number, ok := d.referred(s); ok {
		d.uses[number]++
		if slices.Contains(open, number) {
			d.loops[number] = true
		} else if d.uses[number] == 1 {
			d.count(d.defs[number], append(open, number))
		}
		shared := d.uses[number] > 1 && d.typeOf(number).Kind() == reflect.Struct
		if number != d.self && (shared || d.loops[number]) && !slices.Contains(d.order, number) {
			d.order = append(d.order, number)
		}
		return
	}
	var buf [keywordCount]keyword
	for _, k := range subschemas(buf[:], s) {
		switch value := k.value.(type) {
		case *jsonschema.Schema:
			d.count(value, open)
		case []*jsonschema.Schema:
			for _, part := range value {
				d.count(part, open)
			}
		case properties:
			for pair := value.Oldest(); pair != nil; pair = pair.Next() {
				d.count(pair.Value, open)
			}
		case map[string]*jsonschema.Schema:
			for _, name := range sortedNames(value) {
				d.count(value[name], open)
			}
		}
	}
}

// merged returns the schema that s refers to, with the annotations of s.
func (d *document) merged(s *jsonschema.Schema) *jsonschema.Schema {
	number, ok := d.referred(s)
	if !ok {
		return s
	}
	body := clone(d.defs[number])
	if s.Title != "" {
		body.Title = s.Title
	}
	if s.Description != "" {
		body.Description = s.Description
	}
	if s.Default != nil {
		body.Default = s.Default
	}
	if s.Examples != nil {
		body.Examples = s.Examples
	}
	for key, value := range s.Extras {
		setExtra(body, key, value)
	}
	return body
}

// shortName returns the name of a type without packages: PageItem for Page[shop.Item].
func shortName(t reflect.Type) string {
	var name strings.Builder
	for _, word := range strings.FieldsFunc(t.Name(), func(r rune) bool { return strings.ContainsRune("[], *·{};\"", r) }) {
		// Type arguments include the full path of their package.
		word = word[strings.LastIndexByte(word, '.')+1:]
		for i, r := range word {
			if i == 0 && name.Len() > 0 {
				r = unicode.ToUpper(r)
			}
			if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' {
				name.WriteRune(r)
			}
		}
	}
	return name.String()
}

// uniqueNames returns a different name for each type: the name of the type, with the package in
// front if types of several packages have the name, and with a number at the end if needed.
func uniqueNames(types []reflect.Type) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = shortName(t)
	}
	counts := map[string]int{}
	for _, name := range names {
		counts[name]++
	}
	for i, t := range types {
		if counts[names[i]] > 1 && t.PkgPath() != "" {
			names[i] = path.Base(t.PkgPath()) + "." + names[i]
		}
	}
	taken := map[string]bool{}
	for i, name := range names {
		for n := 2; taken[names[i]]; n++ {
			names[i] = name + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}

// A keyword is a keyword of a schema with its value: a Go value of a JSON type, or schemas.
type keyword struct {
	name  string
	value any
}

// An anyValue is written even if it is zero. Other values are not written if they are zero or have
// length 0.
type anyValue struct{ any }

type properties = *orderedmap.OrderedMap[string, *jsonschema.Schema]

// keywordCount is large enough for all keywords of jsonschema.Schema and a few x-keywords.
const keywordCount = 56

// keywords lists the keywords of s in the order in which they are written: annotations and the
// allowed values first, then limits, then subschemas. Empty values are not listed. The result uses
// the memory of buf.
func keywords(buf []keyword, s *jsonschema.Schema) []keyword {
	var types any = s.Type
	values := s.Enum
	if s.Extras[nullable] != nil {
		if s.Type != "" {
			types = []string{s.Type, "null"}
		}
		if len(values) > 0 {
			values = append(slices.Clip(values), json.RawMessage("null"))
		}
	}
	list := append(buf[:0],
		keyword{"$anchor", s.Anchor}, keyword{"$ref", s.Ref}, keyword{"$dynamicRef", s.DynamicRef},
		keyword{"$comment", s.Comments}, keyword{"title", s.Title}, keyword{"type", types},
		keyword{"description", s.Description}, keyword{"deprecated", s.Deprecated},
		keyword{"readOnly", s.ReadOnly}, keyword{"writeOnly", s.WriteOnly}, keyword{"enum", values},
		keyword{"const", present(s.Const)}, keyword{"default", present(s.Default)}, keyword{"examples", s.Examples},
		keyword{"format", s.Format}, keyword{"contentEncoding", s.ContentEncoding},
		keyword{"contentMediaType", s.ContentMediaType}, keyword{"pattern", s.Pattern},
		keyword{"minLength", s.MinLength}, keyword{"maxLength", s.MaxLength},
		keyword{"minimum", s.Minimum}, keyword{"maximum", s.Maximum},
		keyword{"exclusiveMinimum", s.ExclusiveMinimum}, keyword{"exclusiveMaximum", s.ExclusiveMaximum},
		keyword{"multipleOf", s.MultipleOf}, keyword{"minItems", s.MinItems}, keyword{"maxItems", s.MaxItems},
		keyword{"uniqueItems", s.UniqueItems}, keyword{"minContains", s.MinContains}, keyword{"maxContains", s.MaxContains},
		keyword{"minProperties", s.MinProperties}, keyword{"maxProperties", s.MaxProperties},
	)
	list = append(list, subschemas(buf[len(list):], s)...)
	for _, name := range sortedNames(s.Extras) {
		if name != ownSchema && name != nullable {
			list = append(list, keyword{name, present(s.Extras[name])})
		}
	}
	return withoutEmpty(list)
}

// subschemas lists the keywords with subschemas, and those that are written between them.
func subschemas(buf []keyword, s *jsonschema.Schema) []keyword {
	properties := s.Properties
	if properties != nil && properties.Len() == 0 && s.Type != "object" {
		properties = nil
	}
	return withoutEmpty(append(buf[:0],
		keyword{"contentSchema", s.ContentSchema}, keyword{"prefixItems", s.PrefixItems}, keyword{"items", s.Items},
		keyword{"contains", s.Contains}, keyword{"properties", properties},
		keyword{"patternProperties", s.PatternProperties}, keyword{"required", s.Required},
		keyword{"dependentRequired", s.DependentRequired}, keyword{"additionalProperties", s.AdditionalProperties},
		keyword{"propertyNames", s.PropertyNames}, keyword{"allOf", s.AllOf}, keyword{"anyOf", s.AnyOf},
		keyword{"oneOf", s.OneOf}, keyword{"not", s.Not}, keyword{"if", s.If}, keyword{"then", s.Then},
		keyword{"else", s.Else}, keyword{"dependentSchemas", s.DependentSchemas},
	))
}

func withoutEmpty(list []keyword) []keyword {
	return slices.DeleteFunc(list, func(k keyword) bool {
		v := reflect.ValueOf(k.value)
		return !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
	})
}

// present returns a value that is written even if it is zero. It returns nil for nil.
func present(value any) any {
	if value == nil {
		return nil
	}
	return anyValue{value}
}

func sortedNames[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// encode returns the text of the document.
func (d *document) encode() (json.RawMessage, error) {
	raw := d.append(make([]byte, 0, 256), d.root)
	if len(d.order) > 0 && d.err == nil {
		defs := make([]keyword, len(d.order))
		for i, number := range d.order {
			defs[i] = keyword{d.names[number], d.defs[number]}
		}
		raw, d.err = jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "$defs", Value: d.appendMembers(nil, defs)})
	}
	if d.err != nil {
		return nil, d.err
	}
	return raw, nil
}

// append appends a schema. A reference to a type becomes a reference to its definition, or the schema
// of the type if that is described in place.
func (d *document) append(dst []byte, s *jsonschema.Schema) []byte {
	number, ok := d.referred(s)
	if !ok {
		return d.appendObject(dst, s)
	}
	name := d.names[number]
	switch {
	case name == "" && number != d.self:
		return d.append(dst, d.merged(s))
	case s.Extras[nullable] != nil:
		site := clone(s)
		site.Ref = ""
		site.AnyOf = []*jsonschema.Schema{{Ref: s.Ref}, {Type: "null"}}
		return d.appendObject(dst, site)
	}
	site := *s
	site.Ref = "#"
	if name != "" {
		site.Ref = "#/$defs/" + name
	}
	return d.appendObject(dst, &site)
}

func (d *document) appendObject(dst []byte, s *jsonschema.Schema) []byte {
	switch s {
	case jsonschema.TrueSchema:
		return append(dst, "true"...)
	case jsonschema.FalseSchema:
		return append(dst, "false"...)
	}
	var buf [keywordCount]keyword
	list := keywords(buf[:], s)
	own, ok := s.Extras[ownSchema].(json.RawMessage)
	if !ok {
		return d.appendMembers(dst, list)
	}
	edits := make([]jsonscan.Edit, len(list))
	for i, k := range list {
		edits[i] = jsonscan.Edit{Name: k.name, Value: d.appendValue(nil, k.value)}
	}
	raw, err := jsonscan.Splice(nil, own, edits...)
	if err != nil {
		d.err = err
	}
	return append(dst, raw...)
}

func (d *document) appendValue(dst []byte, value any) []byte {
	switch value := value.(type) {
	case *jsonschema.Schema:
		return d.append(dst, value)
	case []*jsonschema.Schema:
		return appendList(dst, value, d.append)
	case properties:
		dst = append(dst, '{')
		for pair := value.Oldest(); pair != nil; pair = pair.Next() {
			dst = d.appendMember(dst, pair.Key, pair.Value)
		}
		return append(dst, '}')
	case map[string]*jsonschema.Schema:
		dst = append(dst, '{')
		for _, name := range sortedNames(value) {
			dst = d.appendMember(dst, name, value[name])
		}
		return append(dst, '}')
	case anyValue:
		return d.appendValue(dst, value.any)
	case []any:
		return appendList(dst, value, d.appendValue)
	case []string:
		return appendList(dst, value, jsonscan.AppendString)
	case string:
		return jsonscan.AppendString(dst, value)
	case json.RawMessage:
		return append(dst, value...)
	case json.Number:
		return append(dst, value...)
	}
	raw, err := jsonv2.Marshal(value, jsonv2.Deterministic(true))
	if err != nil {
		d.err = err
	}
	return append(dst, raw...)
}

func appendList[V any](dst []byte, list []V, appendOne func([]byte, V) []byte) []byte {
	dst = append(dst, '[')
	for i, value := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOne(dst, value)
	}
	return append(dst, ']')
}

func (d *document) appendMembers(dst []byte, members []keyword) []byte {
	dst = append(dst, '{')
	for _, m := range members {
		dst = d.appendMember(dst, m.name, m.value)
	}
	return append(dst, '}')
}

func (d *document) appendMember(dst []byte, name string, value any) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return d.appendValue(append(jsonscan.AppendString(dst, name), ':'), value)
}

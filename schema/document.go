package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// maxInlined is the size in bytes of the largest schema in which structs that occur twice are described in place.
const maxInlined = 16 << 10

// A document is the written schema of a type: most types are described in place, the others in $defs.
type document struct {
	*reflection
	root  *jsonschema.Schema
	defs  []*definition // those in $defs
	limit int           // bytes; 0 means none
	err   error
}

func newDocument(r *reflection, root *jsonschema.Schema) *document {
	if def := r.referred(root); def != nil {
		root = merged(root, def)
	}
	return &document{reflection: r, root: root}
}

// merged returns the schema of a definition with the annotations of s, which refers to it.
func merged(s *jsonschema.Schema, def *definition) *jsonschema.Schema {
	body := clone(def.schema)
	body.Title = cmp.Or(s.Title, body.Title)
	body.Description = cmp.Or(s.Description, body.Description)
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

// nameDefinitions gives each definition in $defs a different name: the name of its type, with the package in
// front if types of several packages have the name, and with a number at the end if needed.
func (d *document) nameDefinitions() {
	counts := map[string]int{}
	for _, def := range d.defs {
		counts[shortName(def.typ)]++
	}
	taken := map[string]bool{}
	for _, def := range d.defs {
		name := shortName(def.typ)
		if counts[name] > 1 && def.typ.PkgPath() != "" {
			name = path.Base(def.typ.PkgPath()) + "." + name
		}
		def.name = name
		for n := 2; taken[def.name]; n++ {
			def.name = name + strconv.Itoa(n)
		}
		taken[def.name] = true
	}
}

// A keyword is a keyword of a schema with its value: a Go value of a JSON type, or schemas.
type keyword struct {
	name  string
	value any
}

// An anyValue is written even if it is zero. Other values are not written if they are zero or have
// length 0.
type anyValue struct{ any }

// properties are the properties of a schema. Their Go type differs between v0.13 and v0.14 of the library.
type properties struct{ of *jsonschema.Schema }

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
	var members properties
	if s.Properties != nil && (s.Properties.Len() > 0 || s.Type == "object") {
		members.of = s
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
		keyword{"contentSchema", s.ContentSchema}, keyword{"prefixItems", s.PrefixItems}, keyword{"items", s.Items},
		keyword{"contains", s.Contains}, keyword{"properties", members},
		keyword{"patternProperties", s.PatternProperties}, keyword{"required", s.Required},
		keyword{"dependentRequired", s.DependentRequired}, keyword{"additionalProperties", s.AdditionalProperties},
		keyword{"propertyNames", s.PropertyNames}, keyword{"allOf", s.AllOf}, keyword{"anyOf", s.AnyOf},
		keyword{"oneOf", s.OneOf}, keyword{"not", s.Not}, keyword{"if", s.If}, keyword{"then", s.Then},
		keyword{"else", s.Else}, keyword{"dependentSchemas", s.DependentSchemas},
	)
	for _, name := range sortedNames(s.Extras) {
		if name != ownSchema && name != nullable {
			list = append(list, keyword{name, present(s.Extras[name])})
		}
	}
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

var errTooLong = errors.New("schema: the document is longer than its limit")

// encode returns the text of the document.
func (d *document) encode() (json.RawMessage, error) {
	d.defs = slices.DeleteFunc(slices.Clone(d.shared), func(def *definition) bool { return !def.isRecursive })
	d.limit = maxInlined
	raw, err := d.encodeOnce()
	if errors.Is(err, errTooLong) {
		d.defs, d.limit, d.err = d.shared, 0, nil
		return d.encodeOnce()
	}
	return raw, err
}

func (d *document) encodeOnce() (json.RawMessage, error) {
	d.nameDefinitions()
	raw := d.append(make([]byte, 0, 256), d.root)
	if len(d.defs) > 0 && d.err == nil {
		defs := make([]keyword, len(d.defs))
		for i, def := range d.defs {
			defs[i] = keyword{def.name, def.schema}
		}
		raw, d.err = jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "$defs", Value: d.appendMembers(nil, defs)})
	}
	if d.limit > 0 && len(raw) > d.limit && len(d.shared) > len(d.defs) {
		d.err = cmp.Or(d.err, errTooLong)
	}
	if d.err != nil {
		return nil, d.err
	}
	return raw, nil
}

// append appends a schema. A reference to a type becomes a reference to its definition, or the schema
// of the type if that is described in place.
func (d *document) append(dst []byte, s *jsonschema.Schema) []byte {
	def := d.referred(s)
	switch {
	case d.err != nil:
		return dst
	case d.limit > 0 && len(dst) > d.limit && len(d.shared) > len(d.defs):
		d.err = errTooLong // in place, types could have exponential size
		return dst
	case def == nil:
		return d.appendObject(dst, s)
	case def.name == "":
		return d.append(dst, merged(s, def))
	case s.Extras[nullable] != nil:
		site := clone(s)
		site.Ref = ""
		site.AnyOf = []*jsonschema.Schema{{Ref: s.Ref}, {Type: "null"}}
		return d.appendObject(dst, site)
	}
	site := *s
	site.Ref = referencePrefix + def.name
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
		for pair := value.of.Properties.Oldest(); pair != nil; pair = pair.Next() {
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

package schema

import (
	"iter"
	"maps"
	"slices"

	"github.com/invopop/jsonschema"
)

func (w *objectWriter) annotations(s *jsonschema.Schema) {
	w.text("$anchor", s.Anchor)
	w.text("$ref", s.Ref)
	w.text("$dynamicRef", s.DynamicRef)
	w.text("$comment", s.Comments)
	w.text("title", s.Title)
	orNull := s.Extras[nullable] != nil
	if orNull && s.Type != "" {
		w.texts("type", []string{s.Type, "null"})
	} else {
		w.text("type", s.Type)
	}
	w.text("description", s.Description)
	w.value("deprecated", true, s.Deprecated)
	w.value("readOnly", true, s.ReadOnly)
	w.value("writeOnly", true, s.WriteOnly)
	w.values("enum", s.Enum, orNull)
	w.value("const", s.Const, s.Const != nil)
	w.value("default", s.Default, s.Default != nil)
	w.values("examples", s.Examples, false)
}

func (w *objectWriter) assertions(s *jsonschema.Schema) {
	w.text("format", s.Format)
	w.text("contentEncoding", s.ContentEncoding)
	w.text("contentMediaType", s.ContentMediaType)
	w.schema("contentSchema", s.ContentSchema)
	w.text("pattern", s.Pattern)
	w.count("minLength", s.MinLength)
	w.count("maxLength", s.MaxLength)
	w.number("minimum", s.Minimum)
	w.number("maximum", s.Maximum)
	w.number("exclusiveMinimum", s.ExclusiveMinimum)
	w.number("exclusiveMaximum", s.ExclusiveMaximum)
	w.number("multipleOf", s.MultipleOf)
	w.count("minItems", s.MinItems)
	w.count("maxItems", s.MaxItems)
	w.value("uniqueItems", true, s.UniqueItems)
	w.count("minContains", s.MinContains)
	w.count("maxContains", s.MaxContains)
	w.count("minProperties", s.MinProperties)
	w.count("maxProperties", s.MaxProperties)
}

func (w *objectWriter) applicators(s *jsonschema.Schema) {
	w.list("prefixItems", s.PrefixItems)
	w.schema("items", s.Items)
	w.schema("contains", s.Contains)
	if s.Properties != nil && (s.Properties.Len() > 0 || s.Type == "object") {
		w.named("properties", properties(s))
	}
	if len(s.PatternProperties) > 0 {
		w.named("patternProperties", sorted(s.PatternProperties))
	}
	w.texts("required", s.Required)
	w.value("dependentRequired", s.DependentRequired, len(s.DependentRequired) > 0)
	w.schema("additionalProperties", s.AdditionalProperties)
	w.schema("propertyNames", s.PropertyNames)
	w.list("allOf", s.AllOf)
	w.list("anyOf", s.AnyOf)
	w.list("oneOf", s.OneOf)
	w.schema("not", s.Not)
	w.schema("if", s.If)
	w.schema("then", s.Then)
	w.schema("else", s.Else)
	if len(s.DependentSchemas) > 0 {
		w.named("dependentSchemas", sorted(s.DependentSchemas))
	}
}

func (w *objectWriter) values(name string, list []any, orNull bool) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	w.buf = append(w.buf, '[')
	for i, value := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = w.appendValue(w.buf, value)
	}
	if orNull {
		w.buf = append(w.buf, ",null"...)
	}
	w.buf = append(w.buf, ']')
}

// eachPart visits the direct parts of s.
func eachPart(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	for _, part := range [...]*jsonschema.Schema{
		s.Items, s.Contains, s.AdditionalProperties, s.PropertyNames,
		s.Not, s.If, s.Then, s.Else, s.ContentSchema,
	} {
		if part != nil {
			visit(part)
		}
	}
	for _, list := range [...][]*jsonschema.Schema{s.PrefixItems, s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range list {
			visit(part)
		}
	}
	for _, part := range properties(s) {
		visit(part)
	}
	for _, part := range sorted(s.PatternProperties) {
		visit(part)
	}
	for _, part := range sorted(s.DependentSchemas) {
		visit(part)
	}
}

func properties(s *jsonschema.Schema) iter.Seq2[string, *jsonschema.Schema] {
	return func(yield func(string, *jsonschema.Schema) bool) {
		if s.Properties == nil {
			return
		}
		for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
			if !yield(pair.Key, pair.Value) {
				return
			}
		}
	}
}

// sorted yields in the order of the names.
func sorted[V any](named map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if len(named) == 0 {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if !yield(name, named[name]) {
				return
			}
		}
	}
}

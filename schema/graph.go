package schema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A graph holds the subschemas of a schema for the general validator, and which of them apply which
// others. It is used to estimate the work for an instance before validation: schemas that apply
// others to the same value several times can multiply the work without a reasonable bound.
type graph struct {
	root    *jsonschema.Schema
	schemas []*jsonschema.Schema // a schema comes before those that it applies to the same value
	ids     map[*jsonschema.Schema]int
	inPlace [][]int // by id: the schemas applied to the same value
	costs   []cost  // by id
	tracks  bool    // some schema has unevaluatedItems or unevaluatedProperties
	open    map[*jsonschema.Schema]bool
	anchors map[string][]*jsonschema.Schema // the possible targets of each $dynamicRef
}

// newGraph returns an error for a schema that applies itself to the same value. The anchors are the
// schemas with a $dynamicAnchor.
func newGraph(root *jsonschema.Schema, anchors []*jsonschema.Schema) (*graph, error) {
	g := &graph{
		root: root, ids: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{},
		anchors: map[string][]*jsonschema.Schema{},
	}
	for _, s := range anchors {
		g.anchors[s.DynamicAnchor] = append(g.anchors[s.DynamicAnchor], s)
	}
	pending := []*jsonschema.Schema{root}
	var order []*jsonschema.Schema // a schema comes after those that it applies to the same value
	for len(pending) > 0 {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if err := g.visit(s, &order, &pending); err != nil {
			return nil, err
		}
	}
	for _, o := range slices.Backward(order) {
		g.ids[o] = len(g.schemas)
		g.schemas = append(g.schemas, o)
	}
	g.inPlace = make([][]int, len(g.schemas))
	depths := make([]int, len(g.schemas)) // the longest chain of schemas in place that leads to each
	for i, s := range g.schemas {
		for _, part := range append(inPlaceParts(s), g.dynamicParts(s)...) {
			if id := g.ids[part]; id > i {
				g.inPlace[i] = append(g.inPlace[i], id)
				depths[id] = max(depths[id], depths[i]+1)
			}
		}
		g.costs = append(g.costs, costOf(s, depths[i]))
		g.tracks = g.tracks || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
	}
	g.open, g.anchors = nil, nil
	return g, nil
}

// visit adds s and the schemas that it applies to the same value to order, and the schemas that it
// applies to parts of the value to pending.
func (g *graph) visit(s *jsonschema.Schema, order, pending *[]*jsonschema.Schema) error {
	if _, done := g.ids[s]; done {
		return nil
	}
	if len(g.ids) >= maxSubschemas {
		return tooMany("")
	}
	g.ids[s] = 0
	g.open[s] = true
	for _, part := range inPlaceParts(s) {
		if g.open[part] {
			return &CompileError{Reason: "a schema that is applied to one value without end: " + fragment(s) + " leads back to " + fragment(part)}
		}
		if err := g.visit(part, order, pending); err != nil {
			return err
		}
	}
	// The target of a $dynamicRef depends on the instance. The library detects a cycle when it
	// validates.
	for _, part := range g.dynamicParts(s) {
		if !g.open[part] {
			if err := g.visit(part, order, pending); err != nil {
				return err
			}
		}
	}
	g.open[s] = false
	*order = append(*order, s)
	*pending = append(*pending, innerParts(s)...)
	return nil
}

// inPlaceParts lists the schemas that s applies to the value it is applied to.
func inPlaceParts(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	parts = append(parts, s.AllOf...)
	parts = append(parts, s.AnyOf...)
	parts = append(parts, s.OneOf...)
	parts = slices.AppendSeq(parts, maps.Values(s.DependentSchemas))
	for _, dependency := range s.Dependencies {
		parts = append(parts, asSchema(dependency))
	}
	return nonNil(parts)
}

// dynamicParts lists all the schemas that the $dynamicRef of s can lead to.
func (g *graph) dynamicParts(s *jsonschema.Schema) []*jsonschema.Schema {
	if s.DynamicRef == nil {
		return nil
	}
	parts := []*jsonschema.Schema{s.DynamicRef.Ref}
	for _, part := range g.anchors[s.DynamicRef.Anchor] {
		if part != s.DynamicRef.Ref {
			parts = append(parts, part)
		}
	}
	return parts
}

// innerParts lists the schemas that s applies to parts of the value.
func innerParts(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{
		s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems,
		asSchema(s.AdditionalProperties), asSchema(s.AdditionalItems), asSchema(s.Items),
	}
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		parts = append(parts, list...)
	}
	parts = append(parts, s.PrefixItems...)
	parts = slices.AppendSeq(parts, maps.Values(s.Properties))
	parts = slices.AppendSeq(parts, maps.Values(s.PatternProperties))
	return nonNil(parts)
}

// asSchema returns nil for a value that is no schema.
func asSchema(value any) *jsonschema.Schema {
	s, _ := value.(*jsonschema.Schema)
	return s
}

// nonNil returns the schemas that are not nil.
func nonNil(schemas []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(schemas, func(s *jsonschema.Schema) bool { return s == nil })
}

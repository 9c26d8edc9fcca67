package schema

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A graph is the parts of a schema that the general validator judges, and which
// applies which. It tells beforehand how much work an instance would be:
// schemas that apply others to the same value several times over can make that
// grow without reasonable bound.
type graph struct {
	root    *jsonschema.Schema
	schemas []*jsonschema.Schema // those that apply others to the same value first
	ids     map[*jsonschema.Schema]int
	inPlace [][]int // by id: the schemas applied to the same value
	costs   []cost  // by id
	open    map[*jsonschema.Schema]bool
	anchors map[string][]*jsonschema.Schema // those that a $dynamicRef can lead to
}

// newGraph refuses a schema that would be applied to one value without end. The
// anchors are the schemas with a $dynamicAnchor.
func newGraph(root *jsonschema.Schema, anchors []*jsonschema.Schema) (*graph, error) {
	g := &graph{
		root: root, ids: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{},
		anchors: map[string][]*jsonschema.Schema{},
	}
	for _, s := range anchors {
		g.anchors[s.DynamicAnchor] = append(g.anchors[s.DynamicAnchor], s)
	}
	pending := []*jsonschema.Schema{root}
	var order []*jsonschema.Schema // what is applied before what applies it
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
	depths := make([]int, len(g.schemas)) // how many schemas lead to each in place, at most
	for i, s := range g.schemas {
		for _, part := range append(inPlaceParts(s), g.dynamicParts(s)...) {
			if id := g.ids[part]; id > i {
				g.inPlace[i] = append(g.inPlace[i], id)
				depths[id] = max(depths[id], depths[i]+1)
			}
		}
		g.costs = append(g.costs, costOf(s, depths[i]))
	}
	g.open, g.anchors = nil, nil
	return g, nil
}

// visit puts s, and what it applies to the same value, in order, and leaves
// what it applies to parts of the value pending.
func (g *graph) visit(s *jsonschema.Schema, order, pending *[]*jsonschema.Schema) error {
	if _, done := g.ids[s]; done {
		return nil
	}
	if len(g.ids) >= MaxSubschemas {
		return &CompileError{Reason: fmt.Sprintf("a schema may consist of %d schemas", MaxSubschemas)}
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
	// What a $dynamicRef leads to is known only when it is followed. The
	// validator itself notices when it leads back.
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
	for _, part := range s.DependentSchemas {
		parts = append(parts, part)
	}
	for _, dependency := range s.Dependencies {
		if part, ok := dependency.(*jsonschema.Schema); ok {
			parts = append(parts, part)
		}
	}
	return present(parts)
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
	for _, part := range s.Properties {
		parts = append(parts, part)
	}
	for _, part := range s.PatternProperties {
		parts = append(parts, part)
	}
	return present(parts)
}

func asSchema(value any) *jsonschema.Schema {
	s, _ := value.(*jsonschema.Schema)
	return s
}

func present(parts []*jsonschema.Schema) []*jsonschema.Schema {
	kept := parts[:0]
	for _, part := range parts {
		if part != nil {
			kept = append(kept, part)
		}
	}
	return kept
}

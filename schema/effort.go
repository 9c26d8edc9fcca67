package schema

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// An effort counts how often schemas would be applied to a value and its parts,
// without applying them. It takes at most as many steps as there are schemas
// times values.
type effort struct {
	*graph
	steps float64
}

// check refuses an instance that would take more than MaxSteps.
func (g *graph) check(instance any) error {
	e := effort{graph: g}
	times := make([]float64, len(g.schemas))
	times[g.ids[g.root]] = 1
	if !e.value(instance, times) {
		return &BudgetError{Reason: fmt.Sprintf("judging the value takes more than %d steps", MaxSteps)}
	}
	return nil
}

// value counts what happens at a value to which each schema is applied so many
// times. It says whether there is budget left.
func (e *effort) value(value any, times []float64) bool {
	e.steps += float64(len(e.schemas))
	for id, n := range times {
		if n == 0 {
			continue
		}
		e.steps += n * weight(e.schemas[id])
		for _, part := range e.inPlace[id] {
			times[part] += n
		}
	}
	if e.steps > MaxSteps {
		return false
	}
	switch value := value.(type) {
	case map[string]any:
		for name, part := range value {
			if !e.part(part, times, func(s *jsonschema.Schema) []*jsonschema.Schema { return forMember(s, name) }) ||
				!e.part(nil, times, func(s *jsonschema.Schema) []*jsonschema.Schema { return present([]*jsonschema.Schema{s.PropertyNames}) }) {
				return false
			}
		}
	case []any:
		for i, part := range value {
			if !e.part(part, times, func(s *jsonschema.Schema) []*jsonschema.Schema { return forItem(s, i) }) {
				return false
			}
		}
	}
	return true
}

// part counts what happens at a part of a value.
func (e *effort) part(part any, times []float64, applied func(*jsonschema.Schema) []*jsonschema.Schema) bool {
	inner := make([]float64, len(times))
	some := false
	for id, n := range times {
		if n == 0 {
			continue
		}
		for _, s := range applied(e.schemas[id]) {
			inner[e.ids[s]] += n
			some = true
		}
	}
	return !some || e.value(part, inner)
}

// weight is what a schema costs by itself.
func weight(s *jsonschema.Schema) float64 {
	n := 1 + len(s.PatternProperties)
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	return float64(n)
}

// forMember lists the schemas that s applies to a member.
func forMember(s *jsonschema.Schema, name string) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.UnevaluatedProperties}
	known := false
	if part := s.Properties[name]; part != nil {
		parts, known = append(parts, part), true
	}
	for pattern, part := range s.PatternProperties {
		if pattern.MatchString(name) {
			parts, known = append(parts, part), true
		}
	}
	if !known {
		parts = append(parts, asSchema(s.AdditionalProperties))
	}
	return present(parts)
}

// forItem lists the schemas that s applies to an item.
func forItem(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.UnevaluatedItems, s.Contains}
	prefix := s.PrefixItems
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		prefix = list
	}
	if i < len(prefix) {
		parts = append(parts, prefix[i])
	} else {
		parts = append(parts, s.Items2020, asSchema(s.Items), asSchema(s.AdditionalItems))
	}
	return present(parts)
}

// fragment is where a schema stands, for messages.
func fragment(s *jsonschema.Schema) string { return strings.TrimPrefix(s.Location, location) }

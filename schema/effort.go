package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
)

// An effort estimates the work of the general validator on the bytes of an
// instance, without decoding them. It counts how often each schema is applied
// to each value.
type effort struct {
	*graph
	meter
	s      jsonscan.Scanner
	levels [][]float64 // by depth: how often each schema is applied to the value
}

// check refuses an instance that would take more work than the meter allows. The
// instance is sound JSON.
func (g *graph) check(instance []byte, m meter) error {
	e := effort{graph: g, meter: m, s: jsonscan.New(instance)}
	e.spend(decodeCost * len(instance))
	times := e.level(0)
	times[g.ids[g.root]] = 1
	if !e.value(times, 0) {
		return e.exceeded("")
	}
	return nil
}

// level returns the counts for the values at a depth, all 0.
func (e *effort) level(depth int) []float64 {
	if depth == len(e.levels) {
		e.levels = append(e.levels, make([]float64, len(e.schemas)))
	}
	clear(e.levels[depth])
	return e.levels[depth]
}

// charge counts work that may be beyond all bounds.
func (e *effort) charge(units float64) { e.work += int64(min(units, 1e15)) }

// value counts what happens at a value to which each schema is applied so many
// times. It reports whether there is budget left.
func (e *effort) value(times []float64, depth int) bool {
	e.spend(len(e.schemas))
	for id, n := range times {
		if n == 0 {
			continue
		}
		e.charge(n * e.costs[id].fixed)
		for _, part := range e.inPlace[id] {
			times[part] += n
		}
	}
	if e.isEmpty() {
		return false
	}
	switch e.s.Kind() {
	case jsonscan.Object:
		e.whole(times)
		return e.object(times, depth)
	case jsonscan.Array:
		e.whole(times)
		return e.array(times, depth)
	}
	raw, _ := e.s.Value()
	for id, n := range times {
		if n > 0 {
			e.charge(n * e.costs[id].scalar(raw))
		}
	}
	return !e.isEmpty()
}

// whole counts the keywords that compare an array or an object as a whole.
func (e *effort) whole(times []float64) {
	total := -1.0
	for id, n := range times {
		c := &e.costs[id]
		if n == 0 || c.containers == 0 {
			continue
		}
		if total < 0 {
			ahead := e.s
			raw, _ := ahead.Value()
			e.spend(2 * len(raw))
			total = comparing(raw)
		}
		e.charge(n * (c.enumBytes + c.containers*total))
	}
}

func (e *effort) object(times []float64, depth int) bool {
	_ = e.s.EnterObject()
	for first := true; ; first = false {
		key, ok, _ := e.s.Member(first)
		if !ok {
			return true
		}
		for id, n := range times {
			if n > 0 {
				e.charge(n * (memberCost + e.costs[id].names*float64(len(key))))
			}
		}
		if e.isEmpty() {
			return false
		}
		name := string(plain(key))
		after := e.s
		inner, some := e.level(depth+1), false
		for id, n := range times {
			if names := e.schemas[id].PropertyNames; n > 0 && names != nil {
				inner[e.ids[names]] += n
				some = true
			}
		}
		if some {
			e.s = jsonscan.New(key)
			if !e.value(inner, depth+1) {
				return false
			}
			e.s = after
		}
		if !e.part(times, depth, func(s *jsonschema.Schema) []*jsonschema.Schema { return forMember(s, name) }) {
			return false
		}
	}
}

func (e *effort) array(times []float64, depth int) bool {
	start, count, containers := e.s, 0, 0.0
	_ = e.s.EnterArray()
	for ; ; count++ {
		if ok, _ := e.s.Element(count == 0); !ok {
			break
		}
		if kind := e.s.Kind(); kind == jsonscan.Object || kind == jsonscan.Array {
			containers++
		}
		if !e.part(times, depth, func(s *jsonschema.Schema) []*jsonschema.Schema { return forItem(s, count) }) {
			return false
		}
	}
	total := -1.0
	for id, n := range times {
		if n == 0 || !e.costs[id].unique {
			continue
		}
		if total < 0 {
			raw, _ := start.Value()
			e.spend(2 * len(raw))
			total = comparing(raw)
		}
		// Up to 20 items are compared each with each. Of more, those with the same
		// hash are: items that are arrays or objects can be made to have it.
		if count <= 20 {
			e.charge(n * 20 * total)
		} else {
			e.charge(n * (2*total + 16*containers*containers))
		}
	}
	return !e.isEmpty()
}

// part counts what happens at the next part of a value.
func (e *effort) part(times []float64, depth int, applied func(*jsonschema.Schema) []*jsonschema.Schema) bool {
	inner, some := e.level(depth+1), false
	for id, n := range times {
		if n == 0 {
			continue
		}
		for _, s := range applied(e.schemas[id]) {
			inner[e.ids[s]] += n
			some = true
		}
	}
	if !some {
		_, _ = e.s.Value()
		return true
	}
	return e.value(inner, depth+1)
}

// The costs of the general validator, measured.
const (
	decodeCost  = 10  // one byte of the instance
	applyCost   = 500 // one schema applied to one value
	memberCost  = 50  // one member or item, for one schema
	numberCost  = 300 // one number made a fraction
	digitCost   = 20  // one digit of it, those that an exponent adds included
	compareCost = 50  // one value compared
	scopeCost   = 5   // one schema applied in place by another, to look for cycles
	unknownSize = 100 // the size of a pattern of a metaschema
)

// A cost is what one application of a schema takes.
type cost struct {
	fixed      float64
	pattern    float64 // for each byte of a string
	names      float64 // for each byte of the name of a member
	multiple   bool
	unique     bool
	values     float64 // of enum and const
	numbers    float64 // of these, how many are numbers
	containers float64 // and how many are arrays or objects
	enumBytes  float64 // what comparing with all of them takes at least
}

func costOf(s *jsonschema.Schema, depth int) cost {
	c := cost{multiple: s.MultipleOf != nil, unique: s.UniqueItems}
	var values []any
	if s.Enum != nil {
		values = s.Enum.Values
	}
	if s.Const != nil {
		values = append(slices.Clip(values), *s.Const)
	}
	for _, value := range values {
		text := textOfAll(value)
		c.enumBytes += comparing(text)
		switch jsonscan.KindOf(text) {
		case jsonscan.Number:
			c.numbers++
		case jsonscan.Array, jsonscan.Object:
			c.containers++
		}
	}
	c.values = float64(len(values))
	if s.Pattern != nil {
		c.pattern = sizeOf(s.Pattern)
	}
	for p := range s.PatternProperties {
		c.names += sizeOf(p)
	}
	names := len(s.Required) + len(s.PatternProperties) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	for _, list := range s.DependentRequired {
		names += len(list)
	}
	for _, list := range s.Dependencies {
		if list, ok := list.([]string); ok {
			names += len(list)
		}
	}
	c.fixed = applyCost + memberCost*float64(names) + 8*c.values + scopeCost*float64(depth)
	return c
}

// scalar is what a value that is no array or object takes on top.
func (c *cost) scalar(raw []byte) float64 {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		n := float64(len(raw))
		return (2+lengthCost)*n + c.pattern*(n+1) + min(c.enumBytes, c.values*n)
	case jsonscan.Number:
		number := comparing(raw)
		total := 2 * number
		if c.multiple {
			total += 2 * number
		}
		if c.numbers > 0 {
			total += c.numbers*number + c.enumBytes
		}
		return total
	}
	return 0
}

// comparing is what comparing a value with another takes: numbers are made
// fractions first.
func comparing(raw []byte) float64 {
	total := float64(len(raw))
	for rest := raw; len(rest) > 0; {
		switch c := rest[0]; {
		case c == '"':
			s := jsonscan.New(rest)
			text, _ := s.String()
			rest = rest[max(len(text), 1):]
			total += compareCost
		case c == '-' || c >= '0' && c <= '9':
			s := jsonscan.New(rest)
			text, _ := s.Number()
			rest = rest[max(len(text), 1):]
			total += numberCost + digitCost*float64(digitsOf(text))
		default:
			if c == '[' || c == '{' || c == ',' {
				total += compareCost
			}
			rest = rest[1:]
		}
	}
	return total
}

// digitsOf is how many digits a number has when it is written out.
func digitsOf(text []byte) int {
	n := len(text)
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		exponent, ok := parseExponent(text[i+1:])
		if !ok {
			exponent = MaxNumberExponent
		}
		n += max(exponent, -exponent)
	}
	return n
}

func sizeOf(p jsonschema.Regexp) float64 {
	if own, ok := p.(*pattern.Pattern); ok {
		return patternCost * float64(own.Size())
	}
	return patternCost * unknownSize
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

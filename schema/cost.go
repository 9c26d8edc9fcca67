package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
)

// An estimate is the work and the memory of the general validator for an instance. It is calculated
// from the bytes of the instance, by counting how often each schema is applied to each value.
type estimate struct {
	*graph
	meter
	s       jsonscan.Scanner
	levels  []level // by depth
	tracked int64   // the bytes of the parts that are remembered while they are validated
	errors  float64 // the errors if every schema fails everywhere
	worst   float64 // those that remain if objects are not validated past their first error
}

// A level has what is known about the value at a depth.
type level struct {
	times   []float64 // by id: how often each schema is applied to the value
	members []int     // the ids of the schemas that apply others to members or items
	items   []int
}

// instance refuses an instance that takes more work than the meter allows. The instance is valid JSON.
func (e *estimate) instance(size int) error {
	e.spend(decodeCost * size)
	e.level(0)[e.ids[e.root]] = 1
	worst, ok := e.value(0)
	if !ok {
		return e.exceeded("")
	}
	e.worst = worst
	return nil
}

// level returns the counts for a value at a depth, set to 0.
func (e *estimate) level(depth int) []float64 {
	if depth == len(e.levels) {
		e.levels = append(e.levels, level{times: make([]float64, len(e.schemas))})
	}
	l := &e.levels[depth]
	clear(l.times)
	l.members, l.items = l.members[:0], l.items[:0]
	return l.times
}

// charge counts work that may exceed the range of an integer.
func (e *estimate) charge(units float64) { e.work += int64(min(units, 1e15)) }

// value counts the work for the next value, to which schemas are applied as often as the level says. It
// returns the number of errors that can remain, and whether the meter is not empty.
func (e *estimate) value(depth int) (worst float64, ok bool) {
	e.spend(2 * len(e.schemas))
	l := &e.levels[depth]
	times, applied := l.times, 0.0
	for id, n := range times {
		if n == 0 {
			continue
		}
		if e.costs[id].hasMembers {
			l.members = append(l.members, id)
		}
		if e.costs[id].hasItems {
			l.items = append(l.items, id)
		}
		applied += n
		e.charge(n * e.costs[id].fixed)
		for _, part := range e.inPlace[id] {
			times[part] += n
		}
	}
	e.errors += applied * (1 + float64(depth)/32) // an error has the path of the value
	if e.isEmpty() {
		return 0, false
	}
	switch e.s.Kind() {
	case jsonscan.Object:
		e.comparisons(times)
		worst, ok = e.object(depth)
		return applied + worst, ok
	case jsonscan.Array:
		e.comparisons(times)
		worst, ok = e.array(depth)
		return applied + worst, ok
	}
	raw, _ := e.s.Value()
	for id, n := range times {
		if n > 0 {
			e.charge(n * e.costs[id].scalar(raw))
		}
	}
	return applied, !e.isEmpty()
}

// parts counts the work and the memory for remembering which of count parts of a value were evaluated.
// Each schema that is applied to the value has a list of its own.
func (e *estimate) parts(times []float64, count int) {
	if !e.tracks {
		return
	}
	for _, n := range times {
		if n > 0 {
			e.charge(n * trackCost * float64(count))
			e.tracked += trackedSize * int64(count)
		}
	}
}

// comparisons counts the work of keywords that compare a complete array or object.
func (e *estimate) comparisons(times []float64) {
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

func (e *estimate) object(depth int) (worst float64, ok bool) {
	times, inner := e.levels[depth].times, e.levels[depth].members
	active, keepsAll := 0.0, false // schemas that stop at an error of a member; others do not
	for id, n := range times {
		if s := e.schemas[id]; n > 0 {
			if s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil {
				active++
			}
			keepsAll = keepsAll || s.PropertyNames != nil || s.UnevaluatedProperties != nil
		}
	}
	largest, count := 0.0, 0
	_ = e.s.EnterObject()
	for ; ; count++ {
		key, more, _ := e.s.Member(count == 0)
		if !more {
			break
		}
		e.spend(len(times))
		for id, n := range times {
			if n > 0 {
				e.charge(n * (memberCost + e.costs[id].names*float64(len(key))))
			}
		}
		if e.isEmpty() {
			return 0, false
		}
		name := string(plain(key))
		after := e.s
		e.s = jsonscan.New(key)
		names, ok := e.part(depth, inner, func(s *jsonschema.Schema) []*jsonschema.Schema { return nonNil([]*jsonschema.Schema{s.PropertyNames}) })
		if !ok {
			return 0, false
		}
		e.s = after
		member, ok := e.part(depth, inner, func(s *jsonschema.Schema) []*jsonschema.Schema { return forMember(s, name) })
		if !ok {
			return 0, false
		}
		worst += member + names*errorSize/verdictSize
		largest = max(largest, member)
	}
	e.parts(times, count)
	if !keepsAll {
		worst = min(worst, active*largest)
	}
	return worst, !e.isEmpty()
}

func (e *estimate) array(depth int) (worst float64, ok bool) {
	times, inner := e.levels[depth].times, e.levels[depth].items
	start, count, containers := e.s, 0, 0.0
	_ = e.s.EnterArray()
	for ; ; count++ {
		if more, _ := e.s.Element(count == 0); !more {
			break
		}
		if kind := e.s.Kind(); kind == jsonscan.Object || kind == jsonscan.Array {
			containers++
		}
		item, ok := e.part(depth, inner, func(s *jsonschema.Schema) []*jsonschema.Schema { return forItem(s, count) })
		if !ok {
			return 0, false
		}
		worst += item
	}
	e.parts(times, count)
	total := -1.0
	for id, n := range times {
		if n == 0 || !e.costs[id].unique {
			continue
		}
		if total < 0 {
			raw, _ := start.Value()
			e.spend(2 * len(raw))
			total = comparing(raw)
			e.tracked += distinctSize * int64(count)
		}
		// The validator compares all pairs of up to 20 items. Of more items it compares those with
		// equal hashes, and arrays and objects can be chosen to have equal hashes.
		if count <= 20 {
			e.charge(n * 20 * total)
		} else {
			e.charge(n * (2*total + 16*containers*containers))
		}
	}
	return worst, !e.isEmpty()
}

// part counts the work for the next part of the value at a depth. inner are the ids of the schemas that
// apply others to it.
func (e *estimate) part(depth int, inner []int, applied func(*jsonschema.Schema) []*jsonschema.Schema) (worst float64, ok bool) {
	e.spend(partCost * len(inner))
	below, some := e.level(depth+1), false
	times := e.levels[depth].times // level may have moved it
	for _, id := range inner {
		for _, s := range applied(e.schemas[id]) {
			below[e.ids[s]] += times[id]
			some = true
		}
	}
	if !some {
		_, _ = e.s.Value()
		return 0, !e.isEmpty()
	}
	return e.value(depth + 1)
}

// The measured costs of the general validator, in units of work.
const (
	decodeCost  = 10  // one byte of the instance
	applyCost   = 500 // one schema applied to one value
	memberCost  = 50  // one member or item, for one schema
	compareCost = 50  // one value compared
	partCost    = 100 // finding the schemas for one part of a value, for one schema
	trackCost   = 100 // one part of a value, for one schema, if unevaluated parts are found
	scopeCost   = 5   // one schema applied in place by another, to find cycles
	unknownSize = 100 // the size of a pattern of a metaschema
)

// A cost is the work of one application of a schema.
type cost struct {
	fixed      float64
	pattern    float64 // for each byte of a string
	names      float64 // for each byte of the name of a member
	multiple   bool
	unique     bool
	hasMembers bool    // it applies others to members
	hasItems   bool    // it applies others to items
	values     float64 // of enum and const
	numbers    float64 // values that are numbers
	containers float64 // values that are arrays or objects
	enumBytes  float64 // the work of reading all values
}

func costOf(s *jsonschema.Schema, depth int) cost {
	c := cost{
		multiple: s.MultipleOf != nil, unique: s.UniqueItems,
		hasMembers: s.UnevaluatedProperties != nil || s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil || s.PropertyNames != nil,
		hasItems:   s.UnevaluatedItems != nil || s.Contains != nil || s.PrefixItems != nil || s.Items != nil || s.Items2020 != nil || s.AdditionalItems != nil,
	}
	var values []any
	if s.Enum != nil {
		values = s.Enum.Values
	}
	if s.Const != nil {
		values = append(slices.Clip(values), *s.Const)
	}
	for _, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // the value was decoded from JSON
		}
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

// scalar returns the additional work for a value that is no array or object.
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

// comparing returns the work of comparing a value with another. Numbers are converted to fractions.
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
			total += float64(fractionCost(text))
		default:
			if c == '[' || c == '{' || c == ',' {
				total += compareCost
			}
			rest = rest[1:]
		}
	}
	return total
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
	return nonNil(parts)
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
	return nonNil(parts)
}

// fragment returns the pointer of a schema, for messages.
func fragment(s *jsonschema.Schema) string { return strings.TrimPrefix(s.Location, location) }

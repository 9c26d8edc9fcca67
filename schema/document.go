package schema

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"
)

// A document decides which of the reflected types are written in place and
// which become definitions.
type document struct {
	defs  map[string]*jsonschema.Schema
	types []reflect.Type
	root  *jsonschema.Schema
	self  string            // the number of the root's type
	names map[string]string // of the definitions, by number
	order []string          // the numbers of the definitions, as met
	uses  map[string]int
	loops map[string]bool
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

// referred returns the number of the type that s refers to. A schema that a
// type wrote itself may refer to something else.
func (d *document) referred(s *jsonschema.Schema) (string, bool) {
	number, ok := referred(s)
	return number, ok && d.defs[number] != nil
}

func (d *document) typeOf(number string) reflect.Type {
	n, _ := strconv.Atoi(number)
	return d.types[n]
}

// count visits every use of every type, each type's own description once.
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
	eachPart(s, func(part *jsonschema.Schema) { d.count(part, open) })
}

// merged returns what s refers to with the annotations of s.
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

package paramheader

import (
	"encoding/json"
	"iter"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Params contains the annotations of a tool's input schema: which arguments have which
// headers. It is immutable. Nil and the zero value have none. [Compile] returns one.
type Params struct {
	annotated []*property // in the order of the schema
	roots     []*property
	count     int // of all properties
}

// A property is annotated or contains an annotated property.
type property struct {
	name       string
	header     string // canonical; empty without an annotation
	index      int    // among all properties
	properties []*property
}

// Check compares the headers of a tools/call with its arguments, which must be valid JSON. header returns all lines of
// a header by its canonical name. A string, number or boolean at an annotated property must have its header once with
// the same value: integers compare by value, others by their text. Any other value must have no header. The error is a
// *[HeaderError], or a syntax error if the arguments are malformed.
//
// Check does not validate the arguments against the schema. It allocates no memory for up
// to 16 properties, unless it returns an error or a value is in Base64.
func (p *Params) Check(header func(name string) []string, arguments json.RawMessage) error {
	if p == nil || len(p.annotated) == 0 {
		return nil
	}
	var few [16][]byte
	found, err := p.find(few[:], arguments)
	if err != nil {
		return err
	}
	for _, property := range p.annotated {
		name, raw := property.header, found[property.index]
		if hasHeader(raw) {
			err = checkValue(name, header(name), raw)
		} else {
			err = checkAbsent(name, header(name), "its argument")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// All returns the headers of a call with these arguments in the order of the schema:
// canonical name and encoded value. Absent arguments, null, objects and arrays have none.
// An integer is written in plain decimal. A number without a header form is written
// unchanged, so that the server refuses it.
func (p *Params) All(arguments json.RawMessage) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if p == nil || len(p.annotated) == 0 {
			return
		}
		// The server refuses duplicate members and malformed JSON.
		found, _ := p.find(nil, arguments)
		for _, property := range p.annotated {
			raw := found[property.index]
			if hasHeader(raw) && !yield(property.header, headerValue(raw)) {
				return
			}
		}
	}
}

// hasHeader reports whether a raw value has a header.
func hasHeader(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String, jsonscan.Number, jsonscan.Bool:
		return true
	}
	return false
}

// find returns the raw value of each property by its index, in room if that is large
// enough. Arguments that are not an object have none. A duplicate property is an error,
// since servers may choose either.
func (p *Params) find(room [][]byte, arguments []byte) (found [][]byte, err error) {
	if p.count > len(room) {
		room = make([][]byte, p.count)
	}
	f := finder{text: arguments, scan: jsonscan.New(arguments)}
	if f.scan.Kind() != jsonscan.Object {
		return room, nil
	}
	return room, f.object(p.roots, room)
}

// A finder scans arguments once. It does not hold the values that it has found, so that they may stay on its caller's
// stack.
type finder struct {
	text []byte
	scan jsonscan.Scanner
}

func (f *finder) object(properties []*property, found [][]byte) error {
	if err := f.scan.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := f.scan.Member(first)
		if err != nil || !ok {
			return err
		}
		p := findProperty(properties, key)
		if p != nil && found[p.index] != nil {
			return p.duplicateError()
		}
		value, err := f.value(p, found)
		if err != nil {
			return err
		}
		if p != nil {
			found[p.index] = value
		}
	}
}

// value reads a value and the properties of p in it. p may be nil.
func (f *finder) value(p *property, found [][]byte) ([]byte, error) {
	if p == nil || len(p.properties) == 0 || f.scan.Kind() != jsonscan.Object {
		return f.scan.Value()
	}
	start := f.scan.Offset()
	err := f.object(p.properties, found)
	return f.text[start:f.scan.Offset()], err
}

func findProperty(properties []*property, key []byte) *property {
	for _, p := range properties {
		if jsonscan.KeyIs(key, p.name) {
			return p
		}
	}
	return nil
}

func (p *property) duplicateError() error {
	name := p.name
	for p.header == "" {
		p = p.properties[0]
	}
	return &HeaderError{p.header, "mirrors an argument that is ambiguous: " + jsonscan.Quote(name) + " is given twice"}
}

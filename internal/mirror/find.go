package mirror

import "github.com/dovetail-go/dovetail/internal/jsonscan"

// find returns the raw value of each property, by its index, in room if that is
// large enough. Arguments that are no object have none. A property that is given
// twice, which servers may read differently, is an error.
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

// A finder goes through arguments once. It does not keep what it has found, so
// that this may be on its caller's stack.
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
		p := named(properties, key)
		if p != nil && found[p.index] != nil {
			return p.givenTwice()
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

// value reads a value, and in it the properties of p, which may be nil.
func (f *finder) value(p *property, found [][]byte) ([]byte, error) {
	if p == nil || len(p.properties) == 0 || f.scan.Kind() != jsonscan.Object {
		return f.scan.Value()
	}
	start := f.scan.Offset()
	err := f.object(p.properties, found)
	return f.text[start:f.scan.Offset()], err
}

func named(properties []*property, key []byte) *property {
	for _, p := range properties {
		if jsonscan.KeyIs(key, p.name) {
			return p
		}
	}
	return nil
}

func (p *property) givenTwice() error {
	name := p.name
	for p.header == "" {
		p = p.properties[0]
	}
	return &HeaderError{p.header, "mirrors an argument that is ambiguous: " + jsonscan.Quote(name) + " is given twice"}
}

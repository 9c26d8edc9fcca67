package mirror

import (
	"encoding/json"
	"iter"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Params are the annotations of a tool's input schema: which arguments have
// which headers. Nil and the zero value are those of a schema without. [Compile]
// makes them.
type Params struct {
	annotated []*property // in the order of the schema
	roots     []*property
	count     int // how many properties there are in all
}

// A property is one that is annotated, or leads to one that is.
type property struct {
	name       string
	header     string // canonical, empty without an annotation
	index      int    // among all
	properties []*property
}

// Check compares the headers of a tools/call with its arguments, which have been
// decoded; header returns all lines of a canonical name. A string, number or
// boolean in an annotated place must have its header, once and with that value:
// integers compare by value, all others by their text. Anything else there must
// have none. The error is a *[HeaderError], or that of arguments which are not JSON.
//
// Whether a value has the type that the schema wants is for whoever validates
// the arguments. Nothing is allocated for up to 16 properties, unless there is an
// error or a value comes in Base64.
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
		if isMirrored(raw) {
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

// All are the headers of a call with these arguments, in the order of the
// schema: canonical name and encoded value. Arguments that are absent, null,
// objects or arrays have none. An integer is written in plain decimal; a number
// that has no header form, for the server to refuse, as it stands.
func (p *Params) All(arguments json.RawMessage) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if p == nil || len(p.annotated) == 0 {
			return
		}
		// What is given twice, or is no JSON, is for the server to refuse.
		found, _ := p.find(nil, arguments)
		for _, property := range p.annotated {
			raw := found[property.index]
			if isMirrored(raw) && !yield(property.header, headerValue(raw)) {
				return
			}
		}
	}
}

// isMirrored tells whether a raw value has a header.
func isMirrored(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String, jsonscan.Number, jsonscan.Bool:
		return true
	}
	return false
}

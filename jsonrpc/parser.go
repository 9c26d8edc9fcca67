package jsonrpc

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A parser scans the parts of a message. What is not JSON is an error of its
// methods. What is JSON and yet not allowed is noted as an issue, and the scan
// goes on, because the id may be still to come.
type parser struct {
	data  []byte
	scan  jsonscan.Scanner
	keys  [indexedLevels]jsonscan.Keys
	issue string // the first one
	base  int    // where the text begins that is being indexed
}

func (p *parser) note(format string, args ...any) {
	if p.issue == "" {
		p.issue = fmt.Sprintf(format, args...)
	}
}

// indexed scans a value and, when it is an object, records its members in x.
// part names the value in issues.
func (p *parser) indexed(x *index, part string) ([]byte, error) {
	if p.scan.Kind() != jsonscan.Object {
		return p.scan.Value()
	}
	x.reset()
	text, err := p.object(x, 0, part, nil)
	x.text = text
	return text, err
}

// object scans an object on one of the levels that are indexed. parent is the
// raw key of the member that it is the value of, nil on the first level.
func (p *parser) object(x *index, level int, part string, parent []byte) ([]byte, error) {
	if err := p.scan.EnterObject(); err != nil {
		return nil, err
	}
	start := p.scan.Offset() - len("{")
	if level == 0 {
		p.base = start
	}
	keys := &p.keys[level]
	keys.Reset()
	for first := true; ; first = false {
		key, ok, err := p.scan.Member(first)
		if err != nil {
			return nil, err
		}
		if !ok {
			end := p.scan.Offset()
			return p.data[start:end:end], nil
		}
		if err := keys.Add(key, p.scan.KeyOffset()); err != nil {
			p.noteMember(err, part, parent)
		}
		i := x.add(p.scan.KeyOffset() - p.base)
		var value []byte
		if level+1 < indexedLevels && p.scan.Kind() == jsonscan.Object {
			value, err = p.object(x, level+1, part, key)
		} else {
			value, err = p.scan.Value()
		}
		if err != nil {
			return nil, err
		}
		x.setValue(i, p.scan.Offset()-p.base, len(value))
	}
}

func (p *parser) noteMember(err error, part string, parent []byte) {
	if parent == nil {
		p.note("%v in %s", err, part)
		return
	}
	p.note("%v in member %s of %s", err, jsonscan.Quote(jsonscan.Unquote(parent)), part)
}

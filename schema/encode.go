package schema

import (
	"encoding/json"
	"iter"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// encode writes the document, keywords in a fixed order that people like to
// read: what it is, which values, which bounds, which parts.
func (d *document) encode() (json.RawMessage, error) {
	raw := d.append(make([]byte, 0, 256), d.root)
	if len(d.order) > 0 && d.err == nil {
		defs := []byte{'{'}
		for i, number := range d.order {
			defs = d.member(defs, i == 0, d.names[number], d.defs[number])
		}
		raw, d.err = jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "$defs", Value: append(defs, '}')})
	}
	if d.err != nil {
		return nil, d.err
	}
	return raw, nil
}

func (d *document) append(dst []byte, s *jsonschema.Schema) []byte {
	number, ok := d.referred(s)
	if !ok {
		return d.appendObject(dst, s)
	}
	name := d.names[number]
	switch {
	case name == "" && number != d.self:
		return d.append(dst, d.merged(s))
	case s.Extras[nullable] != nil:
		site := clone(s)
		site.Ref = ""
		site.AnyOf = []*jsonschema.Schema{{Ref: s.Ref}, {Type: "null"}}
		return d.appendObject(dst, site)
	}
	site := *s
	site.Ref = "#"
	if name != "" {
		site.Ref = "#/$defs/" + name
	}
	return d.appendObject(dst, &site)
}

func (d *document) appendObject(dst []byte, s *jsonschema.Schema) []byte {
	switch s {
	case jsonschema.TrueSchema:
		return append(dst, "true"...)
	case jsonschema.FalseSchema:
		return append(dst, "false"...)
	}
	start := dst
	own, written := s.Extras[rawText].(json.RawMessage)
	if written {
		start = nil
	}
	w := objectWriter{document: d, buf: append(start, '{'), first: true}
	w.annotations(s)
	w.assertions(s)
	w.applicators(s)
	for key, value := range sorted(s.Extras) {
		if key != rawText && key != nullable {
			w.value(key, value, true)
		}
	}
	w.buf = append(w.buf, '}')
	if written {
		return w.spliceInto(dst, own)
	}
	return w.buf
}

// An objectWriter appends the keywords of one schema.
type objectWriter struct {
	*document
	buf   []byte
	first bool
}

func (w *objectWriter) key(name string) {
	if !w.first {
		w.buf = append(w.buf, ',')
	}
	w.first = false
	w.buf = jsonscan.AppendString(w.buf, name)
	w.buf = append(w.buf, ':')
}

// value writes a member with a Go value, unless it is absent.
func (w *objectWriter) value(name string, value any, present bool) {
	if !present {
		return
	}
	w.key(name)
	w.buf = w.appendValue(w.buf, value)
}

func (w *objectWriter) text(name, value string) {
	if value != "" {
		w.key(name)
		w.buf = jsonscan.AppendString(w.buf, value)
	}
}

func (w *objectWriter) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	w.buf = append(w.buf, '[')
	for i, text := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = jsonscan.AppendString(w.buf, text)
	}
	w.buf = append(w.buf, ']')
}

func (w *objectWriter) number(name string, n json.Number) { w.value(name, n, n != "") }

func (w *objectWriter) count(name string, n *uint64) {
	if n != nil {
		w.value(name, *n, true)
	}
}

func (w *objectWriter) schema(name string, s *jsonschema.Schema) {
	if s != nil {
		w.key(name)
		w.buf = w.append(w.buf, s)
	}
}

func (w *objectWriter) list(name string, list []*jsonschema.Schema) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	w.buf = append(w.buf, '[')
	for i, s := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = w.append(w.buf, s)
	}
	w.buf = append(w.buf, ']')
}

func (w *objectWriter) named(name string, schemas iter.Seq2[string, *jsonschema.Schema]) {
	w.key(name)
	w.buf = append(w.buf, '{')
	first := true
	for key, s := range schemas {
		w.buf = w.member(w.buf, first, key, s)
		first = false
	}
	w.buf = append(w.buf, '}')
}

func (d *document) member(dst []byte, first bool, name string, s *jsonschema.Schema) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = jsonscan.AppendString(dst, name)
	return d.append(append(dst, ':'), s)
}

// spliceInto writes a schema that its type wrote, with what tags add to it.
func (w *objectWriter) spliceInto(dst []byte, own json.RawMessage) []byte {
	added, err := jsonscan.ReadObject(w.buf)
	if err != nil {
		w.err = err
		return dst
	}
	var edits []jsonscan.Edit
	for member := range added.All() {
		edits = append(edits, jsonscan.Edit{Name: jsonscan.Unquote(member.Key), Value: member.Value})
	}
	spliced, err := jsonscan.Splice(nil, own, edits...)
	if err != nil {
		w.err = err
	}
	return append(dst, spliced...)
}

func (d *document) appendValue(dst []byte, value any) []byte {
	switch value := value.(type) {
	case json.RawMessage:
		return append(dst, value...)
	case json.Number:
		return append(dst, value...)
	case string:
		return jsonscan.AppendString(dst, value)
	}
	raw, err := jsonv2.Marshal(value, jsonv2.Deterministic(true))
	if err != nil {
		d.err = err
	}
	return append(dst, raw...)
}

package openapi

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A style is a serialization of values: OpenAPI 3.1.1, section 4.8.12.4.
type style struct {
	name     string // simple, label, matrix; form, spaceDelimited, pipeDelimited, deepObject
	explode  bool
	reserved bool // do not encode reserved characters that cannot end the value
}

// delimiters separate the values of a list that is not exploded. They are percent-encoded,
// because a URL cannot contain a space or a bar.
var delimiters = map[string]string{"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

// pairs returns percent-encoded name=value pairs for a query, a form or cookies.
func (s style) pairs(name string, raw json.RawMessage) ([]string, error) {
	if s.name == "deepObject" {
		return s.deep(nil, name, raw)
	}
	v, err := readValue(raw)
	if err != nil || v.isEmpty() {
		return nil, err
	}
	name = escapeQuery(name)
	switch {
	case v.kind == jsonscan.String:
		return []string{name + "=" + s.escape(v.texts[0])}, nil
	case s.explode:
		pairs := make([]string, len(v.texts))
		for i, text := range v.texts {
			if v.kind == jsonscan.Object {
				name = escapeQuery(v.names[i])
			}
			pairs[i] = name + "=" + s.escape(text)
		}
		return pairs, nil
	}
	return []string{name + "=" + v.join(delimiters[s.name], delimiters[s.name], s.escape)}, nil
}

// deep appends name[key]=value for the members of an object, recursively. The elements of a list
// repeat the name, as in a form.
func (s style) deep(pairs []string, name string, raw json.RawMessage) ([]string, error) {
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null, jsonscan.EOF:
		return pairs, nil
	case jsonscan.Object:
		members, err := jsonscan.ReadObject(raw)
		if err != nil {
			return nil, err
		}
		for m := range members.All() {
			if pairs, err = s.deep(pairs, name+"["+m.Name()+"]", m.Value); err != nil {
				return nil, err
			}
		}
		return pairs, nil
	}
	v, err := readValue(raw)
	for _, text := range v.texts {
		pairs = append(pairs, escapeQuery(name)+"="+s.escape(text))
	}
	return pairs, err
}

// path returns a value for a path. All reserved characters are escaped, including "/".
func (s style) path(name string, v value) (string, error) {
	if slices.Contains(v.texts, "") {
		return "", errors.New("an empty text cannot be part of a path")
	}
	if v.isEmpty() {
		return "", errors.New("a path parameter needs a value")
	}
	lead, separator := "", ","
	switch s.name {
	case "label":
		lead = "."
		if s.explode {
			separator = "."
		}
	case "matrix":
		lead = ";" + url.PathEscape(name) + "="
		if s.explode {
			separator = lead
			if v.kind == jsonscan.Object {
				lead, separator = ";", ";"
			}
		}
	}
	return lead + v.join(separator, s.assign(), url.PathEscape), nil
}

// simple returns a value for a header, without escaping.
func (s style) simple(v value) string {
	return v.join(",", s.assign(), func(text string) string { return text })
}

// assign returns the text between the names and values of an object.
func (s style) assign() string {
	if s.explode {
		return "="
	}
	return ","
}

// join joins the texts with a separator. The texts of an object follow their names and assign.
func (v value) join(separator, assign string, escape func(string) string) string {
	var b strings.Builder
	for i, text := range v.texts {
		if i > 0 {
			b.WriteString(separator)
		}
		if v.kind == jsonscan.Object {
			b.WriteString(escape(v.names[i]))
			b.WriteString(assign)
		}
		b.WriteString(escape(text))
	}
	return b.String()
}

func (s style) escape(text string) string {
	if !s.reserved {
		return escapeQuery(text)
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(":/?@!$'()*,;", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString(escapeQuery(string([]byte{c})))
		}
	}
	return b.String()
}

// escapeQuery percent-encodes all characters except unreserved ones. A space becomes %20, which is
// valid in a path and in a query.
func escapeQuery(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// A value is an argument for a parameter or form: a text, a list of texts, or named texts. The
// zero value is absent.
type value struct {
	kind  jsonscan.Kind // String for any scalar, Array or Object; Invalid if absent
	texts []string
	names []string // of an object, parallel to texts
}

var errNested = errors.New("nested lists and objects are not supported here")

// readValue decodes an argument. null is absent, and omitted in a list or object.
func readValue(raw json.RawMessage) (value, error) {
	switch kind := jsonscan.KindOf(raw); kind {
	case jsonscan.Array:
		return readList(raw)
	case jsonscan.Object:
		members, err := jsonscan.ReadObject(raw)
		if err != nil {
			return value{}, err
		}
		v := value{kind: kind}
		for m := range members.All() {
			if jsonscan.KindOf(m.Value) == jsonscan.Null {
				continue
			}
			text, err := scalar(m.Value)
			if err != nil {
				return value{}, err
			}
			v.names, v.texts = append(v.names, m.Name()), append(v.texts, text)
		}
		return v, nil
	case jsonscan.Null, jsonscan.EOF:
		return value{}, nil
	}
	text, err := scalar(raw)
	return value{kind: jsonscan.String, texts: []string{text}}, err
}

func readList(raw json.RawMessage) (value, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return value{}, err
	}
	v := value{kind: jsonscan.Array}
	for _, element := range elements {
		if jsonscan.KindOf(element) == jsonscan.Null {
			continue
		}
		text, err := scalar(element)
		if err != nil {
			return value{}, err
		}
		v.texts = append(v.texts, text)
	}
	return v, nil
}

// scalar returns the text of a string, number or boolean.
func scalar(raw json.RawMessage) (string, error) {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return jsonscan.Unquote(raw), nil
	case jsonscan.Number, jsonscan.Bool:
		return string(raw), nil
	}
	return "", errNested
}

// isEmpty reports whether there are no texts.
func (v value) isEmpty() bool { return len(v.texts) == 0 }

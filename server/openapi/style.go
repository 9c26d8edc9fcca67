package openapi

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A style is how a value is written: OpenAPI 3.1.1, section 4.8.12.4.
type style struct {
	name     string // simple, label, matrix; form, spaceDelimited, pipeDelimited, deepObject
	explode  bool
	reserved bool // reserved characters that cannot end the value stay as they are
}

// delimiters stand between the values of an unexploded list. They are encoded:
// neither a space nor a bar may stand in a URL.
var delimiters = map[string]string{"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

// pairs writes a value as name=value, percent-encoded, for a query, a form or
// cookies.
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
	case v.kind == jsonscan.Array && s.explode:
		pairs := make([]string, len(v.texts))
		for i, text := range v.texts {
			pairs[i] = name + "=" + s.escape(text)
		}
		return pairs, nil
	case v.kind == jsonscan.Object && s.explode:
		pairs := make([]string, len(v.texts))
		for i, text := range v.texts {
			pairs[i] = escapeQuery(v.names[i]) + "=" + s.escape(text)
		}
		return pairs, nil
	}
	return []string{name + "=" + v.join(delimiters[s.name], delimiters[s.name], s.escape)}, nil
}

// deep writes name[key]=value, and name[key][key]=value below. The elements of a list
// repeat the name, as they do in a form.
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

// path writes a value for a path. Every value in it is escaped, "/" too.
func (s style) path(name string, v value) (string, error) {
	if slices.Contains(v.texts, "") {
		return "", errors.New("an empty text cannot stand in a path")
	}
	if v.isEmpty() {
		return "", errors.New("nothing is given, and a path needs it")
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
	assign := ","
	if s.explode {
		assign = "="
	}
	return lead + v.join(separator, assign, url.PathEscape), nil
}

// simple writes a value for a header, where nothing is escaped.
func (s style) simple(v value) string {
	assign := ","
	if s.explode {
		assign = "="
	}
	return v.join(",", assign, func(text string) string { return text })
}

// join writes the texts with a separator between them, and after their names, if
// they have any, what assigns them.
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

// escapeQuery percent-encodes all but unreserved characters. A space becomes %20,
// which stands for one in a path and in a query alike.
func escapeQuery(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A parameter is an argument that goes into the path, the query, a header or a cookie.
type parameter struct {
	argument string // its name among the arguments
	name     string
	in       string
	style    style
	json     bool // it is written as JSON text
	required bool
	reading  reading
}

// A located parameter is one of the document, with the names that lead to it.
type located struct {
	*openapi3.Parameter
	place []string
}

// parametersOf are those of a path and of its operation, which take the place of those
// with the same name and place.
func parametersOf(path, method string, item *openapi3.PathItem, operation *openapi3.Operation) ([]located, error) {
	var all []located
	add := func(parameters openapi3.Parameters, place ...string) error {
		for i, ref := range parameters {
			if ref == nil || ref.Value == nil {
				return errors.New("a parameter is missing, or refers to itself")
			}
			p := located{ref.Value, append(slices.Clone(place), "parameters", fmt.Sprint(i))}
			same := func(other located) bool { return other.Name == p.Name && other.In == p.In }
			if at := slices.IndexFunc(all, same); at >= 0 {
				all[at] = p
			} else {
				all = append(all, p)
			}
		}
		return nil
	}
	err := errors.Join(
		add(item.Parameters, "paths", path),
		add(operation.Parameters, "paths", path, strings.ToLower(method)),
	)
	return all, err
}

// isOffered says whether a parameter may be given: nameless ones may not, nor headers
// that the specification tells to ignore (OpenAPI 3.1.1, section 4.8.12.1) or that are
// HTTP's own.
func (p located) isOffered(headers bool) bool {
	switch p.In {
	case "header":
		return headers && p.Name != "" && !slices.Contains(ownHeaders, http.CanonicalHeaderKey(p.Name))
	case "cookie":
		return headers && p.Name != ""
	}
	return p.Name != ""
}

var ownHeaders = []string{
	"Accept", "Content-Type", "Authorization",
	"Connection", "Content-Length", "Cookie", "Expect", "Host", "Keep-Alive", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// parameter checks a parameter of the document and finds its schema.
func (b *builder) parameter(p located) (*parameter, json.RawMessage, error) {
	method, err := p.SerializationMethod()
	if err != nil {
		return nil, nil, fmt.Errorf("the parameter %.200q stands in %.40q, expected path, query, header or cookie", p.Name, p.In)
	}
	made := &parameter{
		argument: p.Name, name: p.Name, in: p.In, required: p.Required || p.In == "path",
		style: style{name: method.Style, explode: method.Explode, reserved: p.AllowReserved},
	}
	if !slices.Contains(styles[p.In], method.Style) {
		return nil, nil, fmt.Errorf("the parameter %.200q has the style %.40q, expected one of %q in a %s", p.Name, method.Style, styles[p.In], p.In)
	}
	if (p.In == "header" || p.In == "cookie") && !isToken(p.Name) {
		return nil, nil, fmt.Errorf("%.200q is no name of a %s", p.Name, p.In)
	}
	place, described := append(p.place, "schema"), p.Schema != nil
	if len(p.Content) > 0 {
		media := chooseMedia(p.Content)
		made.json = isJSON(mediaType(media))
		content := p.Content[media]
		place, described = append(p.place, "content", media, "schema"), content != nil && content.Schema != nil
	}
	schema := anything
	if described {
		if schema, err = b.document.source.at(place...); err != nil {
			return nil, nil, err
		}
	}
	made.reading, err = b.document.source.reading(schema)
	return made, schema, err
}

// anything is the schema of what has none.
var anything = json.RawMessage(`{}`)

// styles are those that a place allows.
var styles = map[string][]string{
	"path":   {"simple", "label", "matrix"},
	"query":  {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
	"header": {"simple"},
	"cookie": {"form"},
}

// appendPairs writes an argument for a query or cookies.
func (p *parameter) appendPairs(pairs []string, argument json.RawMessage) ([]string, error) {
	if p.json {
		return append(pairs, escapeQuery(p.name)+"="+p.style.escape(string(argument))), nil
	}
	more, err := p.style.pairs(p.name, argument)
	return append(pairs, more...), err
}

// value reads an argument for a path or a header.
func (p *parameter) value(argument json.RawMessage) (value, error) {
	if p.json && jsonscan.KindOf(argument) != jsonscan.EOF {
		return value{kind: jsonscan.String, texts: []string{string(argument)}}, nil
	}
	return readValue(argument)
}

// header writes an argument for a header.
func (p *parameter) header(argument json.RawMessage) (string, error) {
	v, err := p.value(argument)
	if err != nil {
		return "", err
	}
	text := p.style.simple(v)
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", errors.New("a header has no line breaks and no other control characters")
	}
	return text, nil
}

// isToken says whether a text may name a header or a cookie: RFC 9110, section 5.6.2.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A parameter is an argument for the path, the query, a header or a cookie.
type parameter struct {
	argument string // name of the argument
	name     string
	in       string
	style    style
	json     bool // encoded as JSON text
	required bool
	valueType
}

// A locatedParameter is a parameter of the document and its path there.
type locatedParameter struct {
	*openapi3.Parameter
	location []string
}

// mergedParameters returns the parameters of a path and of its operation. A parameter of the operation
// overrides the parameter of the path with the same name and location.
func mergedParameters(path, method string, item *openapi3.PathItem, operation *openapi3.Operation) ([]locatedParameter, error) {
	var all []locatedParameter
	add := func(parameters openapi3.Parameters, location ...string) error {
		for i, ref := range parameters {
			if ref == nil || ref.Value == nil {
				return errors.New("a parameter is missing or refers to itself")
			}
			p := locatedParameter{ref.Value, append(slices.Clone(location), "parameters", fmt.Sprint(i))}
			same := func(other locatedParameter) bool { return other.Name == p.Name && other.In == p.In }
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

// isUsable reports whether a parameter can be an argument. Parameters without a name are not, nor
// are headers that OpenAPI ignores (3.1.1, section 4.8.12.1) or that HTTP itself uses.
func (p locatedParameter) isUsable(headers bool) bool {
	switch p.In {
	case "header":
		return headers && p.Name != "" && !slices.Contains(reservedHeaders, http.CanonicalHeaderKey(p.Name))
	case "cookie":
		return headers && p.Name != ""
	}
	return p.Name != ""
}

var reservedHeaders = []string{
	"Accept", "Content-Type", "Authorization",
	"Connection", "Content-Length", "Cookie", "Expect", "Host", "Keep-Alive", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// parameter compiles a parameter of the document and returns its schema.
func (b *builder) parameter(p locatedParameter) (*parameter, json.RawMessage, error) {
	method, err := p.SerializationMethod()
	if err != nil {
		return nil, nil, fmt.Errorf("the parameter %.200q is in %.40q, expected path, query, header or cookie", p.Name, p.In)
	}
	made := &parameter{
		argument: p.Name, name: p.Name, in: p.In, required: p.Required || p.In == "path",
		style: style{name: method.Style, explode: method.Explode, reserved: p.AllowReserved},
	}
	if !slices.Contains(styles[p.In], method.Style) {
		return nil, nil, fmt.Errorf("the parameter %.200q has the style %.40q, expected one of %q in a %s", p.Name, method.Style, styles[p.In], p.In)
	}
	if (p.In == "header" || p.In == "cookie") && !isToken(p.Name) {
		return nil, nil, fmt.Errorf("%.200q is not a valid name of a %s", p.Name, p.In)
	}
	location, hasSchema := append(p.location, "schema"), p.Schema != nil
	if len(p.Content) > 0 {
		media := chooseMedia(p.Content)
		made.json = isJSON(mediaType(media))
		content := p.Content[media]
		location, hasSchema = append(p.location, "content", media, "schema"), content != nil && content.Schema != nil
	}
	schema := anySchema
	if hasSchema {
		if schema, err = b.document.source.at(location...); err != nil {
			return nil, nil, err
		}
	}
	made.valueType, err = b.document.source.valueType(schema)
	return made, schema, err
}

// anySchema accepts every value.
var anySchema = json.RawMessage(`{}`)

// styles are the styles that a location supports.
var styles = map[string][]string{
	"path":   {"simple", "label", "matrix"},
	"query":  {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
	"header": {"simple"},
	"cookie": {"form"},
}

// appendPairs appends name=value pairs for a query or cookies.
func (p *parameter) appendPairs(pairs []string, argument json.RawMessage) ([]string, error) {
	if p.json {
		return append(pairs, escapeQuery(p.name)+"="+p.style.escape(string(argument))), nil
	}
	more, err := p.style.pairs(p.name, argument)
	return append(pairs, more...), err
}

// value decodes an argument for a path or a header.
func (p *parameter) value(argument json.RawMessage) (value, error) {
	if p.json && jsonscan.KindOf(argument) != jsonscan.EOF {
		return value{kind: jsonscan.String, texts: []string{string(argument)}}, nil
	}
	return readValue(argument)
}

// header encodes an argument for a header.
func (p *parameter) header(argument json.RawMessage) (string, error) {
	v, err := p.value(argument)
	if err != nil {
		return "", err
	}
	text := p.style.simple(v)
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", errors.New("a header cannot contain line breaks and other control characters")
	}
	return text, nil
}

// isToken reports whether a text is a token, such as the name of a header: RFC 9110, section
// 5.6.2.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// A pathTemplate is a path of the document as a sequence of texts and parameters.
type pathTemplate []pathPiece

// A pathPiece is percent-encoded text or a parameter. Before pathTemplate.set, a parameter has
// only a name.
type pathPiece struct {
	text      string
	parameter *parameter
}

// parsePath parses a path of the document. It ignores a fragment, by which some documents
// distinguish paths.
func parsePath(path string) (pieces pathTemplate, names []string, err error) {
	path, _, _ = strings.Cut(path, "#")
	var unique nameSet
	if hasDotSegment(path) {
		return nil, nil, errors.New("the path has a dot segment (. or ..)")
	}
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "?") {
		return nil, nil, errors.New("a path must begin with / and have no query")
	}
	for rest := path; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if text != "" {
			plain, err := url.PathUnescape(text)
			if err != nil {
				return nil, nil, errors.New("the path has an invalid percent-encoding")
			}
			pieces = append(pieces, pathPiece{text: (&url.URL{Path: plain}).EscapedPath()})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed || name == "" {
			return nil, nil, errors.New("the path has a brace that is not closed, or an empty parameter name")
		}
		unique.add(name)
		pieces = append(pieces, pathPiece{parameter: &parameter{name: name}})
		rest = after
	}
	return pieces, unique.list, nil
}

// set sets a parameter wherever it occurs. ok is false if it does not occur.
func (t pathTemplate) set(p *parameter) (ok bool) {
	for i := range t {
		if t[i].parameter != nil && t[i].parameter.name == p.name {
			t[i].parameter, ok = p, true
		}
	}
	return ok
}

// write returns the path for arguments. separators permits / and \ in values.
func (t pathTemplate) write(arguments *jsonscan.Members, separators bool) (string, error) {
	var path strings.Builder
	for _, piece := range t {
		if piece.parameter == nil {
			path.WriteString(piece.text)
			continue
		}
		p := piece.parameter
		v, err := p.value(arguments.Get(p.argument))
		if err != nil {
			return "", fmt.Errorf("%s: %w", jsonscan.Quote(p.argument), err)
		}
		for _, text := range slices.Concat(v.names, v.texts) {
			if err := checkPathText(text, separators); err != nil {
				return "", fmt.Errorf("%s: %w", jsonscan.Quote(p.argument), err)
			}
		}
		text, err := p.style.path(p.name, v)
		if err != nil {
			return "", fmt.Errorf("%s: %w", jsonscan.Quote(p.argument), err)
		}
		path.WriteString(text)
	}
	// A segment may consist of several values, and a label begins with a dot.
	if hasDotSegment(path.String()) {
		return "", errors.New("the arguments result in a path segment \".\" or \"..\"")
	}
	return path.String(), nil
}

// checkPathText rejects a value that a proxy or the service could interpret as several path
// segments: nginx decodes %2F before it resolves "..", and other programs decode twice.
func checkPathText(text string, separators bool) error {
	decoded := decodeAll(text)
	if !separators && strings.ContainsAny(decoded, `/\`) {
		return fmt.Errorf(`%.100q has a / or \ and cannot be part of a path`, text)
	}
	if hasDotSegment(decoded) {
		return fmt.Errorf("%.100q has a dot segment (. or ..) and cannot be part of a path", text)
	}
	return nil
}

// hasDotSegment reports whether a path has a segment . or .., however it is encoded. Some
// servers ignore the part of a segment after a semicolon.
func hasDotSegment(path string) bool {
	for segment := range strings.FieldsFuncSeq(decodeAll(path), func(r rune) bool { return r == '/' || r == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// decodeAll decodes repeated percent-encoding, up to eight times, which is more than any chain of
// proxies decodes. Invalid encodings are kept.
func decodeAll(text string) string {
	for range 8 {
		var b strings.Builder
		for i := 0; i < len(text); i++ {
			if i+2 < len(text) && text[i] == '%' {
				if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
					b.WriteByte(byte(c))
					i += 2
					continue
				}
			}
			b.WriteByte(text[i])
		}
		if b.Len() == len(text) {
			return text
		}
		text = b.String()
	}
	return text
}

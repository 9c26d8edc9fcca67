package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A pathTemplate is a path of the document: text and parameters by turns.
type pathTemplate []pathPiece

// A pathPiece is text, percent-encoded, or a parameter, of which only the name is known
// until it is set.
type pathPiece struct {
	text      string
	parameter *parameter
}

// parsePath cuts a path of the document at its parameters. Some documents tell paths
// apart by a fragment, which a request does not have.
func parsePath(path string) (pieces pathTemplate, names []string, err error) {
	path, _, _ = strings.Cut(path, "#")
	if hasDotSegment(path) {
		return nil, nil, errors.New("the path has a dot segment (. or ..)")
	}
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "?") {
		return nil, nil, errors.New("a path begins with / and has no query")
	}
	for rest := path; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if text != "" {
			plain, err := url.PathUnescape(text)
			if err != nil {
				return nil, nil, errors.New("the path has a percent sign that encodes nothing")
			}
			pieces = append(pieces, pathPiece{text: (&url.URL{Path: plain}).EscapedPath()})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed || name == "" {
			return nil, nil, errors.New("the path has a brace that is not closed, or encloses nothing")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		pieces = append(pieces, pathPiece{parameter: &parameter{name: name}})
		rest = after
	}
	return pieces, names, nil
}

// set puts a parameter of the document in its places; ok is false if the path has none.
func (t pathTemplate) set(p *parameter) (ok bool) {
	for i := range t {
		if t[i].parameter != nil && t[i].parameter.name == p.name {
			t[i].parameter, ok = p, true
		}
	}
	return ok
}

// write fills in arguments. With separators, values may contain / and \.
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
	// Several values can make one segment, and a label begins with a dot.
	if hasDotSegment(path.String()) {
		return "", errors.New("the arguments make a segment . or .. of the path")
	}
	return path.String(), nil
}

// checkPathText refuses a value that a proxy or the service could take for more than
// one segment of the path: stock nginx decodes %2F before it resolves "..", and others
// decode twice.
func checkPathText(text string, separators bool) error {
	decoded := decodeAll(text)
	if !separators && strings.ContainsAny(decoded, `/\`) {
		return fmt.Errorf(`%.100q has a / or \ and cannot stand in a path`, text)
	}
	if hasDotSegment(decoded) {
		return fmt.Errorf("%.100q has a dot segment (. or ..) and cannot stand in a path", text)
	}
	return nil
}

// hasDotSegment reports whether a path has a segment . or .., however encoded. Some
// servers ignore what follows a semicolon.
func hasDotSegment(path string) bool {
	for segment := range strings.FieldsFuncSeq(decodeAll(path), func(r rune) bool { return r == '/' || r == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// decodeAll decodes what is percent-encoded, however often it has been encoded. A
// percent sign that encodes nothing stays. Eight times are more than any chain of
// proxies decodes.
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

package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
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

// write fills in arguments.
func (t pathTemplate) write(arguments *jsonscan.Members) (string, error) {
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
		text, err := p.style.path(p.name, v)
		if err != nil {
			return "", fmt.Errorf("%s: %w", jsonscan.Quote(p.argument), err)
		}
		path.WriteString(text)
	}
	return path.String(), nil
}

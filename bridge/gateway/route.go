package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxSegments is how many segments a path may have.
const maxSegments = 16

// segments are those of a request's path, decoded, and none for a path that this package has
// no routes of: with empty segments, with those that lead elsewhere, or that are no text.
func segments(r *http.Request) []string {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if strings.Count(path, "/") >= maxSegments {
		return nil
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil || text == "" || text == "." || text == ".." || !utf8.ValidString(text) {
			return nil
		}
		parts[i] = text
	}
	return parts
}

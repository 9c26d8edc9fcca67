package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

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

// allows says whether the method is the route's; if not, the request has been answered.
func allows(w http.ResponseWriter, r *http.Request, refuse refuser, method string) bool {
	if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", method)
	refuse.turnAway(w, r, http.StatusMethodNotAllowed, "Method Not Allowed")
	return false
}

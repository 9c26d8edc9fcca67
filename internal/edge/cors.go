package edge

import (
	"net/http"
	"strings"
)

// exposed are the response headers that a page may read.
const exposed = "Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce"

// paramPrefix begins the request headers that mirror a tool's arguments.
const paramPrefix = "mcp-param-"

// isSendable tells whether a page may send a request header of that name, given in
// lower case.
func isSendable(name string) bool {
	switch name {
	case "accept", "authorization", "content-type", "dpop", "last-event-id",
		"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id":
		return true
	}
	return len(name) > len(paramPrefix) && strings.HasPrefix(name, paramPrefix) && isToken(name)
}

// allowReading lets pages of an origin read the response.
func allowReading(header http.Header, origin string) {
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", exposed)
}

// isPreflight tells a CORS preflight from any other OPTIONS.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight allows what a route takes: of the headers asked for, those that it
// may want to see.
func answerPreflight(w http.ResponseWriter, r *http.Request, methods []string) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	header.Set("Access-Control-Max-Age", preflightAge)
	if allowed := sendable(r.Header["Access-Control-Request-Headers"]); len(allowed) > 0 {
		header.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	}
	AbandonBody(w, r)
	w.WriteHeader(http.StatusNoContent)
}

func sendable(lines []string) []string {
	var names []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.ToLower(strings.Trim(name, " \t"))
			if isSendable(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// isToken checks the grammar of RFC 9110, section 5.6.2, for lower case.
func isToken(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

package edge

import (
	"net/http"
	"strings"
)

const (
	// MinToken is how many characters a token has at least.
	MinToken = 16
	// maxToken is how many it has at most.
	maxToken = 4096
)

// tokenProtocol begins the subprotocol of a WebSocket that holds a token: a browser cannot
// set a header there. It is not agreed on, and so not sent back.
const tokenProtocol = "dovetail.token."

// IsToken says whether a text can be a token, so that it fits in a header and in a
// subprotocol: at least [MinToken] characters of A-Z, a-z, 0-9 and -._~.
func IsToken(text string) bool {
	return len(text) >= MinToken && len(text) <= maxToken && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
	}) < 0
}

// Token is what a request shows as "Authorization: Bearer T" (RFC 6750, section 2.1), or, to
// open a WebSocket, as the subprotocol "dovetail.token.T"; "" if nothing, or more than one
// Authorization. A query is not looked at: it ends up in logs and histories.
func Token(r *http.Request) string {
	if lines := r.Header["Authorization"]; len(lines) > 0 {
		scheme, token, _ := strings.Cut(lines[0], " ")
		if len(lines) > 1 || len(token) > maxToken || !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		return strings.TrimSpace(token)
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return ""
	}
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for protocol := range strings.SplitSeq(line, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(protocol), tokenProtocol); ok && len(token) <= maxToken {
				return token
			}
		}
	}
	return ""
}

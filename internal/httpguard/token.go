package httpguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

const (
	// MinToken is the minimum length of a token.
	MinToken = 16
	// maxToken is the maximum length of a token.
	maxToken = 4096
)

// tokenProtocol is the prefix of a WebSocket subprotocol that contains a token, since a
// browser cannot set other headers there. The server does not select it, so it is not sent
// back.
const tokenProtocol = "dovetail.token."

// IsToken reports whether a text is a valid token: [MinToken] to 4096 characters of A-Z,
// a-z, 0-9 and -._~, which may stand in a header and in a subprotocol.
func IsToken(text string) bool {
	return len(text) >= MinToken && len(text) <= maxToken && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
	}) < 0
}

// Token returns the token of a request: from "Authorization: Bearer T" (RFC 6750, section
// 2.1), or, if the request opens a WebSocket, from the subprotocol "dovetail.token.T". It
// returns "" without a token or with more than one Authorization. It ignores the query,
// since that is stored in logs and histories.
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

// SameToken reports whether two tokens are equal, in constant time whatever their lengths.
func SameToken(given, token string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

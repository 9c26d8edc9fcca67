package channel

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// tokenProtocol begins the subprotocol that holds a token: a browser cannot set a header.
// It is not agreed on, and so not sent back.
const tokenProtocol = "dovetail.token."

// A secret is a token that is compared in constant time, whatever its length.
type secret [sha256.Size]byte

func secretOf(token string) secret { return sha256.Sum256([]byte(token)) }

func (s secret) is(token string) bool {
	given := secretOf(token)
	return subtle.ConstantTimeCompare(s[:], given[:]) == 1
}

// isToken checks what a token may hold, so that it fits in a header and a subprotocol.
func isToken(token string) bool {
	return len(token) >= minToken && strings.IndexFunc(token, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
	}) < 0
}

// tokenOf is the token of a handshake, "" if there is none. A query is not looked at: it
// ends up in logs and histories.
func tokenOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	for _, protocol := range websocket.Subprotocols(r) {
		if token, ok := strings.CutPrefix(protocol, tokenProtocol); ok {
			return token
		}
	}
	return ""
}

package authserver

import (
	"crypto"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

var (
	errProof = errors.New("invalid_dpop_proof")
	errNonce = errors.New("use_dpop_nonce")
)

func (s *Server) currentNonce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonce
}

// checkProof returns the thumbprint of the key that a request proves to have, "" if it
// proves nothing. RFC 9449, section 5.
func (s *Server) checkProof(r *http.Request) (string, error) {
	lines := r.Header["Dpop"]
	if len(lines) == 0 {
		return "", nil
	}
	token, err := jwt.ParseSigned(lines[0], []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(lines) > 1 || len(token.Headers) != 1 || token.Headers[0].JSONWebKey == nil || token.Headers[0].ExtraHeaders["typ"] != "dpop+jwt" {
		return "", errProof
	}
	key := token.Headers[0].JSONWebKey
	var proof struct {
		ID       string           `json:"jti"`
		Method   string           `json:"htm"`
		URI      string           `json:"htu"`
		IssuedAt *jwt.NumericDate `json:"iat"`
		Nonce    string           `json:"nonce"`
	}
	if !key.IsPublic() || token.Claims(key, &proof) != nil || proof.ID == "" || proof.IssuedAt == nil ||
		proof.Method != r.Method || proof.URI != s.URL+r.URL.Path || age(s.options.Clock(), proof.IssuedAt.Time()) > proofLife {
		return "", errProof
	}
	if s.options.Nonces && subtle.ConstantTimeCompare([]byte(proof.Nonce), []byte(s.currentNonce())) != 1 {
		return "", errNonce
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", errProof
	}
	return base64.RawURLEncoding.EncodeToString(thumbprint), nil
}

// age is how far two times lie apart.
func age(a, b time.Time) time.Duration { return a.Sub(b).Abs() }

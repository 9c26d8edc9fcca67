package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A proofKey is a key that tokens are bound to. RFC 9449.
type proofKey struct {
	key    jose.JSONWebKey
	signer jose.Signer
}

// newProofKey makes a key.
func newProofKey() (*proofKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return proofKeyOf(jose.JSONWebKey{Key: key, Algorithm: string(jose.ES256)})
}

func proofKeyOf(key jose.JSONWebKey) (*proofKey, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		return nil, err
	}
	return &proofKey{key, signer}, nil
}

// save is the key, the private half of it too.
func (k *proofKey) save() json.RawMessage {
	text, _ := k.key.MarshalJSON() // keys of this kind can be
	return text
}

func parseProofKey(text json.RawMessage) (*proofKey, error) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if _, ok := key.Key.(*ecdsa.PrivateKey); !ok {
		return nil, errSaved
	}
	return proofKeyOf(key)
}

// A proof is what a proof says. RFC 9449, section 4.2.
type proof struct {
	ID        string `json:"jti"`
	Method    string `json:"htm"`
	URI       string `json:"htu"`
	IssuedAt  int64  `json:"iat"`
	TokenHash string `json:"ath,omitempty"`
	Nonce     string `json:"nonce,omitempty"`
}

// prove makes a proof for one request, with a token or without.
func (k *proofKey) prove(now time.Time, method string, to *url.URL, nonce string, token Secret) (string, error) {
	p := proof{ID: rand.Text(), Method: method, URI: plain(to).String(), IssuedAt: now.Unix(), Nonce: nonce}
	if token != "" {
		hash := sha256.Sum256([]byte(token))
		p.TokenHash = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	return jwt.Signed(k.signer).Claims(p).Serialize()
}

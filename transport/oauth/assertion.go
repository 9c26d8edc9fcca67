package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-jose/go-jose/v4/jwt"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// assert adds to a request's parameters a client's word on who it is, for one server and
// a minute. RFC 7523, sections 2.2 and 3; the audience is the issuer, and nothing else,
// so that no server can use it with another.
func (r *Registration) assert(params url.Values, at *serverMetadata, now time.Time) error {
	algorithm, err := signingAlgorithm(r.Key, at.signingAlgorithms)
	if err != nil {
		return err
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if r.KeyID != "" {
		options = options.WithHeader("kid", r.KeyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: cryptosigner.Opaque(r.Key)}, options)
	if err != nil {
		return fmt.Errorf("oauth: the registration's key: %w", err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: r.ClientID, Subject: r.ClientID, Audience: jwt.Audience{at.issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
	if err != nil {
		return fmt.Errorf("oauth: signing with the registration's key: %w", err)
	}
	params.Set("client_assertion_type", assertionType)
	params.Set("client_assertion", text)
	return nil
}

// signingAlgorithm is one that a key can be used with and that a server knows.
func signingAlgorithm(key crypto.Signer, supported []string) (jose.SignatureAlgorithm, error) {
	var can []jose.SignatureAlgorithm
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		can = []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
	case ed25519.PublicKey:
		can = []jose.SignatureAlgorithm{jose.EdDSA}
	case *ecdsa.PublicKey:
		switch public.Curve.Params().BitSize {
		case 256:
			can = []jose.SignatureAlgorithm{jose.ES256}
		case 384:
			can = []jose.SignatureAlgorithm{jose.ES384}
		case 521:
			can = []jose.SignatureAlgorithm{jose.ES512}
		}
	}
	for _, algorithm := range can {
		if len(supported) == 0 || slices.Contains(supported, string(algorithm)) {
			return algorithm, nil
		}
	}
	return "", fmt.Errorf("oauth: the registration's key, a %T, is for none of the algorithms that the server supports: %.256q", key.Public(), supported)
}

package oauth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A keySet is the public keys that can verify signatures.
type keySet struct {
	keys []jose.JSONWebKey
	at   time.Time
}

var (
	errUnknownKey = &InvalidTokenError{Reason: "it is signed with a key that its issuer does not publish"}
	errNoKeys     = errors.New("there is no key in the JWK Set that signatures can be verified with")
)

// parseKeys reads a JWK Set. Keys that are not understood, too weak or for something
// else are left out, as RFC 7517, section 5, has it.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	document, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(document.Get("keys"), &items); err != nil {
		return nil, errors.New("expected a JWK Set: an object with a list of keys")
	}
	if len(items) > maxKeys {
		return nil, fmt.Errorf("there are more than %d keys in the JWK Set", maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, item := range items {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(item) == nil && (key.Use == "" || key.Use == "sig") && isVerifying(item) && isSignatureKey(key.Key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	return keys, nil
}

// isVerifying looks at key_ops. RFC 7517, section 4.3.
func isVerifying(key json.RawMessage) bool {
	members, err := jsonscan.ReadObject(key)
	if err != nil {
		return false
	}
	operations := members.Get("key_ops")
	return operations == nil || strings.Contains(string(operations), `"verify"`)
}

// isSignatureKey tells public keys of algorithms that are admitted here: never one that
// could sign.
func isSignatureKey(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return isRSAKey(key)
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

func isRSAKey(key *rsa.PublicKey) bool {
	return key.N.BitLen() >= minRSA && key.N.BitLen() <= maxRSA
}

// suited are the keys for an algorithm that have a name. A token without one is verified
// only if there is no choice.
func (s *keySet) suited(id string, algorithm jose.SignatureAlgorithm) ([]*jose.JSONWebKey, error) {
	var found []*jose.JSONWebKey
	for i := range s.keys {
		key := &s.keys[i]
		if (id == "" || key.KeyID == id) && isKeyFor(key, algorithm) {
			found = append(found, key)
		}
	}
	if len(found) == 0 || len(found) > maxCandidates || id == "" && len(found) > 1 {
		return nil, errUnknownKey
	}
	return found, nil
}

func isKeyFor(key *jose.JSONWebKey, algorithm jose.SignatureAlgorithm) bool {
	if key.Algorithm != "" && key.Algorithm != string(algorithm) {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(algorithm), "RS") || strings.HasPrefix(string(algorithm), "PS")
	case *ecdsa.PublicKey:
		return algorithm == curveAlgorithm(public.Curve)
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	}
	return false
}

func curveAlgorithm(curve elliptic.Curve) jose.SignatureAlgorithm {
	switch curve {
	case elliptic.P256():
		return jose.ES256
	case elliptic.P384():
		return jose.ES384
	case elliptic.P521():
		return jose.ES512
	}
	return ""
}

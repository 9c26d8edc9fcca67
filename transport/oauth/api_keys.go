package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

const (
	// minAPIKey is the minimum length of an API key, in bytes.
	minAPIKey = 16
	// maxAPIKeys is the number of keys that a verifier may have.
	maxAPIKeys = 100_000
)

// An APIKey is a key of one caller, for [NewAPIKeyVerifier].
type APIKey struct {
	// Hash is the result of [HashAPIKey] for the key. Required.
	Hash string
	// Subject is the ID of the caller. Several keys may have the same subject, such as the old
	// and the new key of a caller. Required.
	Subject string
	// Scopes are the scopes that the key grants.
	Scopes []string
	// Expires is when the key expires. Zero means never.
	Expires time.Time
}

// HashAPIKey returns the SHA-256 hash of an API key in hexadecimal, for [APIKey].Hash. Store
// only hashes: the keys cannot be computed from them.
//
// A key needs at least 128 random bits, such as the text of crypto/rand.Text. A password that
// a person has chosen can be guessed from its hash, and so it is not an API key.
func HashAPIKey(key Secret) string {
	hash := sha256.Sum256([]byte(key))
	return hex.EncodeToString(hash[:])
}

// An APIKeyVerifier verifies keys that the operator of a server has given to its callers. Use [NewAPIKeyVerifier]. Its methods may
// be called concurrently.
//
// A client sends its key like a token: "Authorization: Bearer " and the key. Keys have no
// audience, so each server needs keys of its own.
type APIKeyVerifier struct {
	issuer string
	keys   *atomic.Pointer[map[[sha256.Size]byte]*APIKey] // a pointer, so that fmt does not print it as part of another struct
}

var _ Verifier = (*APIKeyVerifier)(nil)

// NewAPIKeyVerifier returns a verifier of keys. issuer is a URL that names the operator, such as the origin of the server. It is the
// [Grant].Issuer of all keys, and so the beginning of the principals. The error says that issuer is not a URL as in
// [ProtectOptions].AuthorizationServers, or is one of Replace.
func NewAPIKeyVerifier(issuer string, keys []APIKey) (*APIKeyVerifier, error) {
	if err := syntax.CheckIdentifier("issuer", issuer); err != nil {
		return nil, fmt.Errorf("oauth.NewAPIKeyVerifier: %w", err)
	}
	v := &APIKeyVerifier{issuer: issuer, keys: new(atomic.Pointer[map[[sha256.Size]byte]*APIKey])}
	if err := v.Replace(keys); err != nil {
		return nil, fmt.Errorf("oauth.NewAPIKeyVerifier: %w", err)
	}
	return v, nil
}

// Replace replaces all keys. One that is left out is revoked: it is valid for no later request. Replace returns an error, and
// replaces nothing, for a hash that is not one of [HashAPIKey] or is given twice, for a key without a subject, for a malformed scope,
// and for more than 100,000 keys.
func (v *APIKeyVerifier) Replace(keys []APIKey) error {
	if len(keys) > maxAPIKeys {
		return fmt.Errorf("expected at most %d keys, got %d", maxAPIKeys, len(keys))
	}
	all := make(map[[sha256.Size]byte]*APIKey, len(keys))
	for i, key := range keys {
		var hash [sha256.Size]byte
		if n, err := hex.Decode(hash[:], []byte(key.Hash[:min(len(key.Hash), 2*sha256.Size)])); err != nil || n != sha256.Size || len(key.Hash) != 2*sha256.Size {
			return fmt.Errorf("key %d: expected a Hash of %d hexadecimal digits", i, 2*sha256.Size)
		}
		if key.Subject == "" || len(key.Subject) > maxClaim {
			return fmt.Errorf("key %d: expected a Subject of 1 to %d bytes", i, maxClaim)
		}
		if err := syntax.CheckScopes(key.Scopes); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
		if all[hash] != nil {
			return fmt.Errorf("key %d: its Hash is given twice", i)
		}
		key.Scopes = slices.Clone(key.Scopes)
		all[hash] = &key
	}
	v.keys.Store(&all)
	return nil
}

var (
	errNotAPIKey     = &InvalidTokenError{Reason: "it is not a known API key"}
	errAPIKeyExpired = &InvalidTokenError{Reason: "the API key has expired"}
)

// Verify verifies a key. It ignores the audience. The error is an [*InvalidTokenError].
//
// Only hashes are compared. The time of the comparison reveals nothing about a key, because a
// caller cannot choose the hash of what it sends.
func (v *APIKeyVerifier) Verify(_ context.Context, token Secret, _ string) (*Grant, error) {
	if len(token) < minAPIKey || len(token) > maxBearerToken {
		return nil, errNotAPIKey
	}
	key := (*v.keys.Load())[sha256.Sum256([]byte(token))]
	switch {
	case key == nil:
		return nil, errNotAPIKey
	case !key.Expires.IsZero() && !time.Now().Before(key.Expires):
		return nil, errAPIKeyExpired
	}
	return &Grant{Issuer: v.issuer, Subject: key.Subject, Scopes: key.Scopes, Expires: key.Expires, Claims: []byte("{}")}, nil
}

// Format prints a constant, so that no hash is printed.
func (v *APIKeyVerifier) Format(to fmt.State, _ rune) {
	_, _ = io.WriteString(to, "oauth.APIKeyVerifier")
}

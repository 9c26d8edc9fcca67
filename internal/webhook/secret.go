package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
)

const secretPrefix = "whsec_"

// Limits of a secret, in bytes.
const (
	MinSecret = 24
	MaxSecret = 64
)

// A Secret is the key that signs deliveries. Formatting it does not reveal it.
type Secret struct{ key []byte }

// ErrSecret means that a text is no secret.
var ErrSecret = errors.New("webhook: a secret is whsec_ and the base64 of 24 to 64 bytes")

// ParseSecret decodes "whsec_" and base64 with padding (RFC 4648, section 4). The error is
// [ErrSecret].
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	// DecodeString ignores line breaks.
	if !ok || len(encoded) > base64.StdEncoding.EncodedLen(MaxSecret) || strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, ErrSecret
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) < MinSecret || len(key) > MaxSecret {
		return Secret{}, ErrSecret
	}
	return Secret{key}, nil
}

// NewSecret returns a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return Secret{key}
}

// Text returns the text form, which [ParseSecret] accepts.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// Bytes returns the key, which must not be modified. It is empty for the zero value.
func (s Secret) Bytes() []byte { return s.key }

// String returns a text without the secret.
func (Secret) String() string { return "webhook.Secret(hidden)" }

// GoString returns a text without the secret.
func (s Secret) GoString() string { return s.String() }

package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MinKey is the minimum length of a key, in bytes.
	MinKey = 32
	// MaxKeys is the maximum number of keys in a ring. All of them are tried on a token
	// that does not open.
	MaxKeys = 16
	// MaxToken is the maximum length of a token, in bytes.
	MaxToken = 64 << 10
)

const (
	version    = "dt1." // of tokens
	rawVersion = "db1." // of data without expiry
	saltSize   = 12
	expirySize = 8
	nonceSize  = 12
	tagSize    = 16
	overhead   = saltSize + nonceSize + tagSize
)

var (
	// ErrForged says that a token was not sealed with a key of the ring for this binding,
	// or was changed. It does not say which.
	ErrForged = errors.New("token: not authentic for this binding")

	// ErrExpired says that a token is authentic and has expired.
	ErrExpired = errors.New("token: expired")
)

// A KeyError says why [NewRing] refused its keys. It never contains a key.
type KeyError struct{ Reason string }

func (e *KeyError) Error() string { return "token: " + e.Reason }

// A SizeError says that a token would be longer than [MaxToken].
type SizeError struct{ Token int } // the length that it would have, in bytes

func (e *SizeError) Error() string {
	return fmt.Sprintf("token: the token would have %d bytes, at most %d are allowed", e.Token, MaxToken)
}

// A Ring holds the keys that seal and open tokens. Use [NewRing].
type Ring struct {
	keys [][]byte // pseudorandom keys in the sense of RFC 5869
}

// NewRing returns a ring of up to [MaxKeys] keys. Each needs at least [MinKey] bytes from a
// cryptographic random source; a password is not a key. The first key seals, and all of
// them open. To replace a key while tokens are in use, add the new key behind the old one
// in all processes, then move it to the front, then remove the old one when its tokens have
// expired.
//
// Without keys, the ring gets a random one, and its tokens are lost with the process. The
// error is a [*KeyError].
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		random := make([]byte, MinKey)
		rand.Read(random) // never fails
		keys = [][]byte{random}
	}
	if len(keys) > MaxKeys {
		return nil, &KeyError{fmt.Sprintf("%d keys given, at most %d accepted", len(keys), MaxKeys)}
	}
	r := &Ring{}
	for i, key := range keys {
		if len(key) < MinKey {
			return nil, &KeyError{fmt.Sprintf("key %d has %d bytes, at least %d expected", i+1, len(key), MinKey)}
		}
		extracted, err := hkdf.Extract(sha256.New, key, nil)
		if err != nil {
			return nil, &KeyError{fmt.Sprintf("key %d: %v", i+1, err)}
		}
		r.keys = append(r.keys, extracted)
	}
	return r, nil
}

// Seal returns a token that contains plaintext and is valid until expires, rounded down to
// milliseconds. The token opens only with the same binding; see [Binding]. Two tokens of
// one plaintext differ. The error is a [*SizeError].
func (r *Ring) Seal(plaintext, binding []byte, expires time.Time) (string, error) {
	size := len(version) + base64.RawURLEncoding.EncodedLen(overhead+expirySize+len(plaintext))
	if size > MaxToken {
		return "", &SizeError{size}
	}
	content := make([]byte, expirySize, expirySize+len(plaintext))
	binary.BigEndian.PutUint64(content, uint64(expires.UnixMilli()))
	content = append(content, plaintext...)

	token := make([]byte, len(version), size)
	copy(token, version)
	return string(base64.RawURLEncoding.AppendEncode(token, r.seal(version, content, binding))), nil
}

// Open returns the plaintext of a token. The error is [ErrForged] unless a key of the ring
// has sealed exactly this token for this binding. From the expiry on, it is [ErrExpired].
func (r *Ring) Open(token string, binding []byte, now time.Time) ([]byte, error) {
	sealed, ok := decode(token)
	if !ok {
		return nil, ErrForged
	}
	content, err := r.open(version, sealed, binding)
	if err != nil {
		return nil, err
	}
	expires := time.UnixMilli(int64(binary.BigEndian.Uint64(content)))
	if !now.Before(expires) {
		return nil, ErrExpired
	}
	return content[expirySize:], nil
}

// SealBytes is like [Ring.Seal], but the data do not expire, have no maximum size and are not
// encoded as text. They are 40 bytes longer than plaintext.
func (r *Ring) SealBytes(plaintext, binding []byte) []byte {
	return r.seal(rawVersion, plaintext, binding)
}

// OpenBytes returns the plaintext of what [Ring.SealBytes] returned. The error is [ErrForged].
func (r *Ring) OpenBytes(sealed, binding []byte) ([]byte, error) {
	if len(sealed) < overhead {
		return nil, ErrForged
	}
	return r.open(rawVersion, sealed, binding)
}

// seal returns salt, nonce and ciphertext.
func (r *Ring) seal(version string, content, binding []byte) []byte {
	sealed := make([]byte, saltSize, overhead+len(content))
	rand.Read(sealed) // never fails
	return newCipher(version, r.keys[0], sealed).Seal(sealed, nil, content, authenticated(version, binding))
}

// open opens what seal returned. sealed has at least overhead bytes.
func (r *Ring) open(version string, sealed, binding []byte) ([]byte, error) {
	salt, ciphertext := sealed[:saltSize], sealed[saltSize:]
	data := authenticated(version, binding)
	for _, key := range r.keys {
		if content, err := newCipher(version, key, salt).Open(nil, nil, ciphertext, data); err == nil {
			return content, nil
		}
	}
	return nil, ErrForged
}

// IsToken reports whether a text has the form of a token. It may be forged.
func IsToken(text string) bool {
	_, ok := decode(text)
	return ok
}

// decode returns the bytes of a token. The encoding is strict, so that no two texts are the
// same token.
func decode(token string) (sealed []byte, ok bool) {
	text, ok := strings.CutPrefix(token, version)
	if !ok || len(token) > MaxToken || strings.ContainsAny(text, "\r\n") { // base64 would skip line breaks
		return nil, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return sealed, err == nil && len(sealed) >= overhead+expirySize
}

// newCipher returns the AEAD of one token. It puts the nonce before the ciphertext.
func newCipher(version string, key, salt []byte) cipher.AEAD {
	derived, err := hkdf.Expand(sha256.New, key, version+string(salt), 32)
	if err != nil {
		panic(err) // only for more than 255 hashes, or a length that FIPS 140 forbids
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(err) // 32 bytes are a valid key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return aead
}

func authenticated(version string, binding []byte) []byte {
	return append([]byte(version), binding...)
}

// Binding encodes parts as a binding. Different lists of parts have different bindings;
// with plain concatenation, "ab", "c" and "a", "bc" would be equal.
func Binding(parts ...string) []byte {
	var binding []byte
	for _, part := range parts {
		binding = binary.AppendUvarint(binding, uint64(len(part)))
		binding = append(binding, part...)
	}
	return binding
}

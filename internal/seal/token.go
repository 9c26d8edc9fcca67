package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

const (
	version    = "dt1."
	saltSize   = 12
	expirySize = 8
	nonceSize  = 12
	tagSize    = 16
	overhead   = saltSize + nonceSize + expirySize + tagSize
)

// encoding is strict, so that no two texts are the same token.
func encoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// Seal returns a token that holds plaintext until expires, which counts in
// milliseconds and is rounded down. The token opens only with the same binding; see
// [Binding]. Tokens of one plaintext differ. The error is a [*SizeError].
func (r *Ring) Seal(plaintext, binding []byte, expires time.Time) (string, error) {
	size := len(version) + base64.RawURLEncoding.EncodedLen(overhead+len(plaintext))
	if size > MaxToken {
		return "", &SizeError{size}
	}
	sealed := make([]byte, saltSize, overhead+len(plaintext))
	rand.Read(sealed) // never fails
	content := make([]byte, expirySize, expirySize+len(plaintext))
	binary.BigEndian.PutUint64(content, uint64(expires.UnixMilli()))
	content = append(content, plaintext...)

	sealed = tokenCipher(r.keys[0], sealed).Seal(sealed, nil, content, authenticated(binding))

	token := make([]byte, len(version), size)
	copy(token, version)
	return string(base64.RawURLEncoding.AppendEncode(token, sealed)), nil
}

// Open returns what was sealed. The error is [ErrForged] unless the token is exactly
// what a key of the ring has sealed for this binding; then it is [ErrExpired] from
// the expiry on.
func (r *Ring) Open(token string, binding []byte, now time.Time) ([]byte, error) {
	sealed, ok := decode(token)
	if !ok {
		return nil, ErrForged
	}
	salt, ciphertext := sealed[:saltSize], sealed[saltSize:]
	data := authenticated(binding)
	for _, key := range r.keys {
		content, err := tokenCipher(key, salt).Open(nil, nil, ciphertext, data)
		if err != nil {
			continue
		}
		expires := time.UnixMilli(int64(binary.BigEndian.Uint64(content)))
		if !now.Before(expires) {
			return nil, ErrExpired
		}
		return content[expirySize:], nil
	}
	return nil, ErrForged
}

// decode returns the bytes of a token, at least as many as every token has.
func decode(token string) (sealed []byte, ok bool) {
	text, ok := strings.CutPrefix(token, version)
	if !ok || len(token) > MaxToken || strings.ContainsAny(text, "\r\n") { // base64 would skip line breaks
		return nil, false
	}
	sealed, err := encoding().DecodeString(text)
	return sealed, err == nil && len(sealed) >= overhead
}

// tokenCipher returns the AEAD of one token. It puts the nonce before the ciphertext.
func tokenCipher(key, salt []byte) cipher.AEAD {
	derived, err := hkdf.Expand(sha256.New, key, version+string(salt), 32)
	if err != nil {
		panic(err) // asked for more than 255 hashes, or for a size that FIPS 140 forbids
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return aead
}

func authenticated(binding []byte) []byte {
	return append([]byte(version), binding...)
}

// Binding joins parts into a binding. No two lists of parts give the same one,
// as plain concatenation would for "ab", "c" and "a", "bc".
func Binding(parts ...string) []byte {
	var binding []byte
	for _, part := range parts {
		binding = binary.AppendUvarint(binding, uint64(len(part)))
		binding = append(binding, part...)
	}
	return binding
}

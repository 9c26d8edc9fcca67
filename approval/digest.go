package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/seal"
)

// A Digest is a SHA-256. As text it has 64 hexadecimal digits in lower case.
type Digest [sha256.Size]byte

// digestOf hashes the parts with their lengths: no two lists of parts are alike.
func digestOf(parts ...string) Digest { return sha256.Sum256(seal.Binding(parts...)) }

// String returns the digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero tells that there is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the digits.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText takes 64 hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("approval: expected %d hexadecimal digits, found %d bytes", hex.EncodedLen(len(d)), len(text))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("approval: a digest: %w", err)
	}
	return nil
}

// instant is a time as digests and the wire have it, whatever its zone: in milliseconds.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

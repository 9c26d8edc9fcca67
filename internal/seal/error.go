package seal

import (
	"errors"
	"fmt"
)

var (
	// ErrForged says that a token was not made by a key of the ring for this
	// binding, or was changed since. It does not say which.
	ErrForged = errors.New("seal: token is not authentic here")

	// ErrExpired says that a token is authentic, but too old.
	ErrExpired = errors.New("seal: token has expired")
)

// A KeyError says why [NewRing] refused its keys. It never holds a key.
type KeyError struct{ Reason string }

func (e *KeyError) Error() string { return "seal: " + e.Reason }

// A SizeError says that a plaintext would make a token longer than [MaxToken].
type SizeError struct{ Token int } // bytes that the token would have

func (e *SizeError) Error() string {
	return fmt.Sprintf("seal: the token would have %d bytes, at most %d are allowed", e.Token, MaxToken)
}

package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is a token, password or assertion. Printed, logged or marshalled, it is
// "[secret]"; string(s) is the secret itself.
//
// Package fmt does not call the methods of unexported fields, so a field with a Secret
// should be exported or behind a pointer. Nor does it call methods for a verb that does not
// fit, such as %s for a pointer to a struct, which go vet reports.
type Secret string

const redacted = "[secret]"

// String returns "[secret]".
func (s Secret) String() string { return redacted }

// GoString returns "[secret]".
func (s Secret) GoString() string { return redacted }

// Format prints "[secret]" for every verb.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, redacted) }

// LogValue returns "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// redactedIf returns what is printed for a secret of another type: nil if it is not set.
func redactedIf(set bool) any {
	if !set {
		return nil
	}
	return Secret(redacted)
}

// MarshalText returns "[secret]", also for encoding/json.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

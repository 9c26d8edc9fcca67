package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is a token, password or assertion. Wherever it is printed, logged or
// marshalled as a value, "[secret]" comes out; string(s) is the secret itself.
//
// Two things are beyond it. The printing of package fmt does not ask unexported fields how
// they want to be printed, so a field that holds a Secret should be exported or lie behind
// a pointer; nor does it ask anything when a verb does not fit, as %s does not fit a
// pointer to a struct, which go vet reports.
type Secret string

const redacted = "[secret]"

// String does not tell the secret.
func (s Secret) String() string { return redacted }

// GoString does not tell the secret.
func (s Secret) GoString() string { return redacted }

// Format does not tell the secret, whatever the verb is.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, redacted) }

// LogValue does not tell the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// shownSecret is how a field shows that holds a secret of another type: nil if it is
// empty.
func shownSecret(there bool) any {
	if !there {
		return nil
	}
	return Secret(redacted)
}

// MarshalText does not tell the secret, neither to encoding/json nor to others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

package config

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what a secret prints as when no more can be said.
const redacted = "[redacted]"

// A Secret is a text that prints as another one, whatever prints it: fmt with any
// verb, JSON, slog. Only [Secret.Reveal] tells it. The zero value is the empty text.
type Secret struct {
	// A function, because packages that print through reflection, which does not
	// stop at unexported fields, cannot look into one.
	reveal func() string
	shown  string
}

// NewSecret returns a secret that prints as shown.
func NewSecret(text, shown string) Secret {
	return Secret{reveal: func() string { return text }, shown: shown}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// String returns what may be shown.
func (s Secret) String() string { return s.shown }

// Format prints what may be shown, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.shown) }

// MarshalText returns what may be shown. JSON is made of it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// LogValue returns what may be shown.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown) }

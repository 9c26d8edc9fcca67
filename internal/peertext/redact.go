package peertext

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// Redacted is shown in place of a secret.
	Redacted = "[redacted]"
	// MinSecret is the minimum length of a secret that is redacted, in bytes. Shorter values, such
	// as 1 or true, occur by chance.
	MinSecret = 8
)

// A Redactor replaces secrets in texts. The nil *Redactor replaces nothing. It may be used
// concurrently.
type Redactor struct {
	replacer *strings.Replacer
	secrets  []string // the longest first
}

// NewRedactor returns a redactor of secrets. Secrets of several lines are redacted by line. It
// returns nil if no secret has at least [MinSecret] bytes.
func NewRedactor(secrets ...string) *Redactor {
	var found []string
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= MinSecret {
				found = append(found, line)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	// One secret may contain another, and at one position the first of the list counts.
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, secret := range found {
		pairs = append(pairs, secret, Redacted)
	}
	return &Redactor{strings.NewReplacer(pairs...), found}
}

// Redact returns a text with [Redacted] in place of each secret, and of the beginning of a secret
// at the end of the text if that has at least [MinSecret] bytes.
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return text
	}
	text = r.replacer.Replace(text)
	for _, secret := range r.secrets {
		for n := min(len(secret), len(text)); n >= MinSecret; n-- {
			if rest, ok := strings.CutSuffix(text, secret[:n]); ok {
				return rest + Redacted
			}
		}
	}
	return text
}

// Longest returns the length of the longest secret in bytes. A text that is cut before it is
// redacted needs so many bytes more.
func (r *Redactor) Longest() int {
	if r == nil {
		return 0
	}
	return len(r.secrets[0])
}

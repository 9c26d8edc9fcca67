package process

import (
	"bytes"
	"io"
	"strings"
)

// Redacted replaces the values of [Command].Secrets in the output of a command.
const Redacted = "[redacted]"

// secretValues returns the values of environment variables, except empty ones.
func secretValues(env []string) (values []string) {
	for _, variable := range env {
		if _, value, _ := strings.Cut(variable, "="); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// A redactor replaces secrets in a text that is written in pieces. It holds back the end of a
// piece only while that end may be the beginning of a secret. It is not safe for concurrent use.
type redactor struct {
	w       io.Writer
	secrets []string
	held    []byte // shorter than the longest secret
	covered int    // bytes at the beginning of the text that a written Redacted replaces
}

// Write redacts p. n counts the bytes of p, not those that were written to w.
func (r *redactor) Write(p []byte) (n int, err error) {
	redacted, held := r.redact(append(r.held, p...), false)
	r.held = bytes.Clone(held)
	if _, err := r.w.Write(redacted); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes the bytes that were held back.
func (r *redactor) flush() error {
	redacted, _ := r.redact(r.held, true)
	r.held = nil
	_, err := r.w.Write(redacted)
	return err
}

// redact returns text without secrets, and the end that must be held back until more of the
// text is known. It replaces secrets that overlap together.
func (r *redactor) redact(text []byte, end bool) (redacted, held []byte) {
	for len(text) > 0 {
		longest := r.covered
		for _, secret := range r.secrets {
			switch {
			case len(secret) <= len(text):
				if len(secret) > longest && string(text[:len(secret)]) == secret {
					longest = len(secret)
				}
			case !end && secret[:len(text)] == string(text): // unlike strings.HasPrefix, without a copy of text
				return redacted, text
			}
		}
		switch {
		case longest == 0:
			redacted = append(redacted, text[0])
		case r.covered == 0:
			redacted = append(redacted, Redacted...)
		}
		text, r.covered = text[1:], max(longest-1, 0)
	}
	return redacted, nil
}

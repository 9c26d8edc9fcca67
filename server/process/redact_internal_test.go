package process

import (
	"bytes"
	"strings"
	"testing"
)

// redactPieces returns what a redactor writes for a text in pieces.
func redactPieces(t testing.TB, secrets []string, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	r := &redactor{w: &out, secrets: secrets}
	for _, piece := range pieces {
		if n, err := r.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("writing %d bytes: %d, %v", len(piece), n, err)
		}
	}
	if err := r.flush(); err != nil {
		t.Error(err)
	}
	return out.String()
}

// A secret that is longer than the text does not make the redactor copy the text at each byte.
func TestLongSecretsAreCheap(t *testing.T) {
	secrets, text := []string{strings.Repeat("k", 64<<10)}, strings.Repeat("x", 4<<10)
	if copies := testing.AllocsPerRun(1, func() { redactPieces(t, secrets, text) }); copies > 100 {
		t.Errorf("%v allocations for %d bytes", copies, len(text))
	}
}

// No part of a secret remains where it overlaps another one, however the text is split.
func TestOverlappingSecretsAreRedacted(t *testing.T) {
	secrets := []string{"abc", "cdef", "fgfg"}
	for text, want := range map[string]string{
		"abcdef": "[redacted]", "<abcdef>": "<[redacted]>", "abcdefgfgfg": "[redacted]", "abcde": "[redacted]de", "abcabc": "[redacted][redacted]",
		"abccdef": "[redacted][redacted]", "abcdeabc": "[redacted]de[redacted]", "xcdefx": "x[redacted]x",
	} {
		for i := range len(text) + 1 {
			if got := redactPieces(t, secrets, text[:i], text[i:]); got != want {
				t.Errorf("%s and %s: got %s, want %s", text[:i], text[i:], got, want)
			}
		}
		if got := redactPieces(t, secrets, strings.Split(text, "")...); got != want {
			t.Errorf("%s in bytes: got %s, want %s", text, got, want)
		}
	}
}

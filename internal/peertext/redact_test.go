package peertext

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// redactPieces returns what a RedactingWriter writes for a text in pieces.
func redactPieces(t testing.TB, secrets []string, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := NewRedactingWriter(&out, secrets)
	for _, piece := range pieces {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("writing %d bytes: %d, %v", len(piece), n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	return out.String()
}

// A secret that is longer than the text does not make the writer copy the text at each byte.
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

// The work for a secret that overlaps itself is bounded: the text repeats its beginning, so that a
// comparison at each byte takes minutes.
func TestRepetitiveSecretsAreCheap(t *testing.T) {
	const length = 1 << 20
	secret, text := strings.Repeat("a", length)+"b", strings.Repeat("a", 4*length)
	if got := redactPieces(t, []string{secret}, text, "b."); got != text[length:]+Redacted+"." {
		t.Errorf("got %d bytes", len(got))
	}
	if got := NewRedactor(secret).Redact(text); got != text[length:]+Redacted {
		t.Errorf("got %d bytes", len(got))
	}
}

// Secrets are found wherever they are in a text of many KiB that comes in one piece.
func TestRedactLongPiece(t *testing.T) {
	const secret = "abcabcabd-secret"
	var text, want strings.Builder
	for i := range 2000 {
		filler := strings.Repeat("abc", i%7)
		text.WriteString(filler + "x" + secret + secret)
		want.WriteString(filler + "x" + Redacted + Redacted)
	}
	if got := NewRedactor(secret).Redact(text.String()); got != want.String() {
		t.Errorf("%d bytes became %d, want %d", text.Len(), len(got), want.Len())
	}
}

// Redact replaces the same as a comparison with each secret at each byte.
func TestRedactEverySplit(t *testing.T) {
	secrets := []string{"aab", "abaab", "b", "aabaa"}
	for n := range 1 << 10 {
		text := strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%010b", n))
		covered := make([]bool, len(text))
		for at := range text {
			for _, secret := range secrets {
				if strings.HasPrefix(text[at:], secret) {
					for i := range len(secret) {
						covered[at+i] = true
					}
				}
			}
		}
		var kept strings.Builder
		for at := range text {
			if !covered[at] {
				kept.WriteByte(text[at])
			}
		}
		for at := range text {
			if got := redactPieces(t, secrets, text[:at], text[at:]); strings.ReplaceAll(got, Redacted, "") != kept.String() {
				t.Fatalf("%s: got %s, want %s outside of secrets", text, got, kept.String())
			}
		}
	}
}

func TestRedact(t *testing.T) {
	r := NewRedactor("12345678", "5678abcdef", "first line\nsecond line")
	for text, want := range map[string]string{
		"":                        "",
		"12345678":                "[redacted]",
		"<12345678>":              "<[redacted]>",
		"<12345678abcdef>":        "<[redacted]>", // they overlap
		"<5678abcd":               "<[redacted]",  // the beginning of a secret at the end
		"<5678abc":                "<5678abc",     // it has less than MinSecret bytes
		"12345678abcd":            "[redacted]",
		"second line, first line": "[redacted], [redacted]",
	} {
		if got := r.Redact(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

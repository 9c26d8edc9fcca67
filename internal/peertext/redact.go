package peertext

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"
)

const (
	// Redacted is shown in place of a secret.
	Redacted = "[redacted]"
	// MinSecret is the minimum length of a secret that a [Redactor] redacts, in bytes. Shorter
	// values, such as 1 or true, occur by chance.
	MinSecret = 8
)

// A Redactor replaces secrets in texts. The nil *Redactor replaces nothing. It may be used
// concurrently.
type Redactor struct {
	secrets []secret // the longest first
}

// NewRedactor returns a redactor of secrets. Secrets of several lines are redacted by line. It
// returns nil if no secret has at least [MinSecret] bytes.
func NewRedactor(secrets ...string) *Redactor {
	var lines []string
	for _, text := range secrets {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= MinSecret {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &Redactor{newSecrets(lines)}
}

// Redact returns a text with [Redacted] in place of each secret, and of the beginning of a secret
// at the end of the text if that has at least [MinSecret] bytes. It replaces secrets that overlap
// together. Its work is proportional to the length of the text and the number of secrets.
func (r *Redactor) Redact(text string) string {
	if r == nil || !slices.ContainsFunc(r.secrets, func(s secret) bool { return strings.Contains(text, s.text[:MinSecret]) }) {
		return text
	}
	s := newSearch(r.secrets)
	redacted := s.add(nil, []byte(text))
	if len(s.held) >= MinSecret {
		s.lengths[0] = len(s.held)
	}
	return string(s.end(redacted))
}

// Longest returns the length of the longest secret in bytes. A text that is cut before it is
// redacted needs so many bytes more.
func (r *Redactor) Longest() int {
	if r == nil {
		return 0
	}
	return len(r.secrets[0].text)
}

// A RedactingWriter replaces secrets of any length in a text that is written in pieces. It holds
// back the end of a piece only while that end may be the beginning of a secret. It is not safe for
// concurrent use.
type RedactingWriter struct {
	out    io.Writer
	search search
}

// NewRedactingWriter returns a writer to out. It ignores empty secrets.
func NewRedactingWriter(out io.Writer, secrets []string) *RedactingWriter {
	return &RedactingWriter{out, newSearch(newSecrets(secrets))}
}

// Write redacts p as [Redactor.Redact] does. n counts the bytes of p, not the bytes that were written to the other
// writer.
func (w *RedactingWriter) Write(p []byte) (n int, err error) {
	if _, err := w.out.Write(w.search.add(nil, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the bytes that were held back. It does not close the other writer.
func (w *RedactingWriter) Close() error {
	_, err := w.out.Write(w.search.end(nil))
	return err
}

// A secret is a text to search for by the algorithm of Knuth, Morris and Pratt. So the work for
// each byte is bounded even if the secret and the text repeat themselves.
type secret struct {
	text string
	// border[n] is the length of the longest proper prefix of text[:n] that is also its suffix (the
	// failure function of Knuth, Morris and Pratt).
	border []int32
}

// newSecrets returns different secrets, the longest first.
func newSecrets(texts []string) []secret {
	texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var all []secret
	for _, text := range slices.Compact(texts) {
		s := secret{text, make([]int32, len(text)+1)}
		for n := 2; n <= len(text); n++ {
			s.border[n] = int32(s.match(int(s.border[n-1]), text[n-1]))
		}
		all = append(all, s)
	}
	return all
}

// match returns how much of the secret a text ends with after the next byte b, if it ended with
// the first n bytes of the secret before.
func (s *secret) match(n int, b byte) int {
	for n == len(s.text) || s.text[n] != b {
		if n == 0 {
			return 0
		}
		n = int(s.border[n])
	}
	return n + 1
}

// A search searches for secrets in a text that is added in pieces.
type search struct {
	secrets []secret
	matched []int  // how much of each secret the text ends with
	held    []byte // the end of the text that may be the beginning of a secret
	lengths []int  // the length of the longest secret that begins at each byte of held
	// coveredBytes is how many bytes at the beginning of held the last Redacted replaces.
	coveredBytes int
}

func newSearch(secrets []secret) search {
	return search{secrets: secrets, matched: make([]int, len(secrets))}
}

// compactAfter is how many released bytes a search keeps, at least, before it discards them.
const compactAfter = 4 << 10

// add adds a piece of the text. It appends to dst what needs not be held back.
func (s *search) add(dst, piece []byte) []byte {
	from := 0 // the beginning of what is held back
	for _, b := range piece {
		s.held, s.lengths = append(s.held, b), append(s.lengths, 0)
		longest := 0
		for i := range s.secrets {
			n := s.secrets[i].match(s.matched[i], b)
			s.matched[i] = n
			if n == len(s.secrets[i].text) {
				at := len(s.held) - n
				s.lengths[at] = max(s.lengths[at], n)
				n = int(s.secrets[i].border[n])
			}
			longest = max(longest, n)
		}
		for ; from < len(s.held)-longest; from++ {
			dst = s.release(dst, from)
		}
		if from > compactAfter && from > len(s.held)/2 {
			s.held, s.lengths = slices.Delete(s.held, 0, from), slices.Delete(s.lengths, 0, from)
			from = 0
		}
	}
	s.held, s.lengths = bytes.Clone(s.held[from:]), slices.Clone(s.lengths[from:])
	return dst
}

// end appends what was held back to dst.
func (s *search) end(dst []byte) []byte {
	for at := range s.held {
		dst = s.release(dst, at)
	}
	s.held, s.lengths = nil, nil
	return dst
}

// release appends a byte of held to dst, or what replaces it.
func (s *search) release(dst []byte, at int) []byte {
	length := max(s.coveredBytes, s.lengths[at])
	switch {
	case length == 0:
		dst = append(dst, s.held[at])
	case s.coveredBytes == 0:
		dst = append(dst, Redacted...)
	}
	s.coveredBytes = max(length-1, 0)
	return dst
}

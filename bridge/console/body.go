package console

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dovetail-go/dovetail/internal/peertext"
)

const (
	// maxBody is how much of the arguments or of the result of a call is kept, in bytes: its beginning and its end.
	maxBody = 64 << 10
	maxEnd  = 16 << 10
)

// A body is what is kept of a text. Secrets of the configuration have been replaced in it.
type body struct {
	size     int
	digest   string // of the whole text, in hexadecimal digits; computed when it is needed, unless a part was cut
	text     string // the whole text, or its beginning
	end      string // the end, if the middle was cut
	inString bool   // end begins within a string
	redacted bool
}

func newBody(text []byte, secrets *peertext.Redactor) *body {
	b := &body{size: len(text)}
	if len(text) <= maxBody {
		b.text = secrets.Redact(string(text))
		b.redacted = secrets != nil && b.text != string(text)
		return b
	}
	b.digest = digestOf(string(text))
	// A secret at the cut is replaced as a whole if the text is cut after that.
	more := secrets.Longest()
	head := string(text[:min(len(text), maxBody-maxEnd+more)])
	end := string(text[max(0, len(text)-maxEnd-more):])
	b.text, b.end = secrets.Redact(head), secrets.Redact(end)
	b.redacted = secrets != nil && (b.text != head || b.end != end)
	b.text = strings.ToValidUTF8(b.text[:min(len(b.text), maxBody-maxEnd)], "")
	cut := max(0, len(b.end)-maxEnd)
	b.end = strings.ToValidUTF8(b.end[cut:], "")
	b.inString = endsInString(text[:len(text)-len(end)+min(cut, len(end))])
	return b
}

// endsInString reports whether the beginning of a JSON text ends within a string.
func endsInString(text []byte) bool {
	within := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			within = !within
		}
	}
	return within
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// whole reports whether the text is kept exactly.
func (b *body) whole() bool { return b != nil && b.end == "" && !b.redacted }

// kept returns how many bytes are kept.
func (b *body) kept() int { return len(b.text) + len(b.end) }

// shown returns the body for an operator. Values of members with the names of secrets are masked, unless reveal is set.
func (b *body) shown(reveal bool) *shownBody {
	if b == nil {
		return nil
	}
	s := &shownBody{Bytes: b.size, Digest: b.digest, Text: b.text, End: b.end, Redacted: b.redacted}
	if s.Digest == "" && !b.redacted {
		s.Digest = digestOf(b.text)
	}
	if !reveal {
		text, masked := maskSecrets(b.text, false)
		end, more := maskSecrets(b.end, b.inString)
		s.Text, s.End, s.Masked = text, end, masked+more
	}
	return s
}

// A shownBody is a body in a frame.
type shownBody struct {
	Bytes    int    `json:"bytes"`
	Digest   string `json:"digest,omitempty"`
	Text     string `json:"text"`
	End      string `json:"end,omitempty"`
	Masked   int    `json:"masked,omitempty"`
	Redacted bool   `json:"redacted,omitempty"`
}

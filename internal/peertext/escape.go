package peertext

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Escape escapes a text so that every character is visible. Control characters, characters that
// change the direction of text, combining marks, invisible characters and all spaces except
// U+0020 become \u escapes. An invalid byte becomes \ufffd, and a backslash becomes \\. The
// result is one line.
func Escape(text string) string { return escape(text, plainText) }

// EscapeJSON escapes a JSON text as [Escape] does. The result is one line, and has the same JSON
// value.
func EscapeJSON(text []byte) string { return escape(string(jsonscan.Line(text)), jsonText) }

// Quote returns a text as a JSON string of visible characters.
func Quote(text string) string { return EscapeJSON(jsonscan.AppendString(nil, text)) }

// EscapeLines escapes a text of several lines as [Escape] does, except that line breaks and
// backslashes stay, a tab becomes four spaces and a carriage return becomes a space. A JSON text
// keeps its value.
func EscapeLines(text string) string { return escape(text, linesText) }

// Cut truncates a text to size bytes. The last three bytes of a truncated text are "…".
func Cut(text string, size int) string {
	const mark = "…"
	if len(text) <= size {
		return text
	}
	end := size - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// A kind of text has its own rules for backslashes and white space.
type kind int

const (
	plainText kind = iota
	jsonText       // invisible characters occur only within strings, except for tabs between tokens
	linesText
)

// keeps reports whether a character stays as it is.
func (k kind) keeps(r rune) bool {
	switch r {
	case '\\':
		return k != plainText
	case '\n':
		return k == linesText
	}
	return visible(r)
}

func escape(text string, k kind) string {
	if strings.IndexFunc(text, func(r rune) bool { return !k.keeps(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for at, r := range text {
		switch {
		case k.keeps(r):
			b.WriteRune(r)
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\t' && k == jsonText, r == '\r' && k == linesText:
			b.WriteByte(' ')
		case r == '\t' && k == linesText:
			b.WriteString("    ")
		case r == utf8.RuneError && !strings.HasPrefix(text[at:], string(utf8.RuneError)):
			b.WriteString(`\ufffd`) // an invalid byte
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// visible reports whether a character is always visible: a letter, number, punctuation mark,
// symbol or U+0020. Marks (M*) are not, because they change the character before them.
// Letters that look alike are not distinguished.
func visible(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError && !isBlank(r) &&
		!unicode.In(r, unicode.M, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control)
}

// isBlank reports whether a character has the category of a symbol or letter, but no ink.
// Unicode has no property for such characters.
func isBlank(r rune) bool {
	switch r {
	case '\u2800', // BRAILLE PATTERN BLANK
		'\U0001D159',               // MUSICAL SYMBOL NULL NOTEHEAD
		'\U00013441', '\U00013442': // EGYPTIAN HIEROGLYPH FULL BLANK and HALF BLANK
		return true
	}
	return false
}

// maxSpaces is the number of consecutive spaces that [Wrap] keeps.
const maxSpaces = 8

// Wrap breaks an escaped text into lines of at most width columns, so that a terminal does not
// break it at a place that the peer has chosen. It replaces longer runs of spaces by their
// number, as in \{12 spaces}, which occurs neither in the result of [Escape] nor in JSON. It
// assumes two columns for a character outside ASCII. The result for an empty text is empty.
func Wrap(text string, width int) []string {
	var wrapped []string
	var line strings.Builder
	used := 0
	add := func(part string, columns int) {
		if used+columns > width && used > 0 {
			wrapped = append(wrapped, line.String())
			line.Reset()
			used = 0
		}
		line.WriteString(part)
		used += columns
	}
	for text != "" {
		rest := strings.TrimLeft(text, " ")
		if spaces := len(text) - len(rest); spaces > maxSpaces {
			count := fmt.Sprintf(`\{%d spaces}`, spaces)
			add(count, len(count))
			text = rest
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		columns := 1
		if r >= utf8.RuneSelf {
			columns = 2
		}
		add(text[:size], columns)
		text = text[size:]
	}
	if line.Len() > 0 {
		wrapped = append(wrapped, line.String())
	}
	return wrapped
}

// Screen returns a writer that escapes what it writes to out as [EscapeLines] does. Each Write
// must consist of complete characters. It may be used concurrently: one Write follows another.
func Screen(out io.Writer) io.Writer { return &screen{out: out} }

type screen struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *screen) Unwrap() io.Writer { return s.out }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write([]byte(EscapeLines(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

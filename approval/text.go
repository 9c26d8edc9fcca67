package approval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Printable is a text that shows all that is in it: control characters, those that change
// the direction of text, combining marks, all spaces but the plain one and what cannot be
// seen are written as \u escapes, and so is a backslash, as \\. There are no line breaks in it.
func Printable(text string) string { return escaped(text, true) }

// PrintableJSON is [Printable] for a JSON text: it stays the same JSON value, on one line.
func PrintableJSON(text []byte) string {
	return escaped(string(jsonscan.Line(text)), false)
}

// escaped writes what cannot be seen as JSON does. In JSON such characters stand within
// strings only, where the escapes mean the same; tabs may stand between tokens as well.
func escaped(text string, backslash bool) string {
	if strings.IndexFunc(text, func(r rune) bool { return !visible(r) || r == '\\' && backslash }) < 0 {
		return text
	}
	var b strings.Builder
	for at, r := range text {
		switch {
		case r == '\\' && backslash:
			b.WriteString(`\\`)
		case r == '\t' && !backslash:
			b.WriteByte(' ') // it stands between tokens
		case r == utf8.RuneError && !strings.HasPrefix(text[at:], string(utf8.RuneError)):
			b.WriteString(`\ufffd`) // a byte that is no text
		case visible(r):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// visible reports whether the shape of a character shows that it is there, wherever it
// stands: it is a letter, number, punctuation mark, symbol or the space. Marks (M*) are
// not: they change the character before them. Letters that look alike are not told apart.
func visible(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError && !isBlank(r) &&
		!unicode.In(r, unicode.M, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control)
}

// isBlank reports whether a character is a symbol or letter by its category and has no
// ink. Unicode has no property for these.
func isBlank(r rune) bool {
	switch r {
	case '\u2800', // BRAILLE PATTERN BLANK
		'\U0001D159',               // MUSICAL SYMBOL NULL NOTEHEAD
		'\U00013441', '\U00013442': // EGYPTIAN HIEROGLYPH FULL BLANK and HALF BLANK
		return true
	}
	return false
}

// keywords are arguments as k='v', n=2.
func keywords(arguments json.RawMessage) string {
	object, err := jsonscan.ReadObject(arguments)
	if err != nil {
		return PrintableJSON(arguments)
	}
	members := slices.SortedFunc(object.All(), func(a, b jsonscan.Member) int {
		return strings.Compare(a.Name(), b.Name())
	})
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteString(", ")
		}
		if name := m.Name(); isWord(name) {
			b.WriteString(name)
		} else {
			b.WriteString(quoted(name))
		}
		b.WriteByte('=')
		if jsonscan.KindOf(m.Value) == jsonscan.String {
			b.WriteString(quoted(jsonscan.Unquote(m.Value)))
		} else {
			b.WriteString(PrintableJSON(m.Value))
		}
		if b.Len() > MaxText {
			break // the rest is cut off
		}
	}
	return b.String()
}

func quoted(text string) string {
	return "'" + strings.ReplaceAll(Printable(cut(text, MaxText)), "'", `\'`) + "'"
}

func isWord(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

// cut shortens a text to so many bytes.
func cut(text string, size int) string {
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

// checkArguments refuses what two readers may read differently: arguments that are no
// object, or in which, at whatever depth, two members have one name.
func checkArguments(arguments json.RawMessage) error {
	if len(arguments) > MaxArguments {
		return fmt.Errorf("the arguments have %d bytes; nobody can be asked about more than %d", len(arguments), MaxArguments)
	}
	if kind := jsonscan.KindOf(arguments); kind != jsonscan.Object {
		return fmt.Errorf("arguments must be an object, not %v", kind)
	}
	return checkMembers(arguments)
}

func checkMembers(value []byte) error {
	switch jsonscan.KindOf(value) {
	case jsonscan.Object:
		object, err := jsonscan.ReadObject(value)
		if err != nil {
			return err
		}
		for m := range object.All() {
			if err := checkMembers(m.Value); err != nil {
				return err
			}
		}
	case jsonscan.Array:
		s := jsonscan.New(value)
		if err := s.EnterArray(); err != nil {
			return err
		}
		for first := true; ; first = false {
			more, err := s.Element(first)
			if err != nil || !more {
				return err
			}
			element, err := s.Value()
			if err != nil {
				return err
			}
			if err := checkMembers(element); err != nil {
				return err
			}
		}
	}
	return nil
}

package tooltype

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
)

// maxIdentifier is the length of an identifier without the number that makes it unique.
const maxIdentifier = 80

// Names are the identifiers in use, such as those of a package. The value of one is the number of identifiers that were
// made of it.
type Names map[string]int

// Reserve returns names that are in use.
func Reserve(names ...string) Names {
	used := make(Names)
	for _, name := range names {
		used[name] = 1
	}
	return used
}

// Add returns an identifier that was not in use: name, or name and a number.
func (used Names) Add(name string) string {
	found := name
	for used[found] > 0 {
		used[name]++
		found = name + strconv.Itoa(used[name])
	}
	used[found]++
	return found
}

// Bounded returns an identifier of at most 80 bytes. The end of a longer one is replaced by a digest, so that it stays
// unique.
func Bounded(identifier string) string {
	if len(identifier) <= maxIdentifier {
		return identifier
	}
	digest := sha256.Sum256([]byte(identifier))
	end := "_" + hex.EncodeToString(digest[:6])
	return identifier[:maxIdentifier-len(end)] + end
}

// Exported returns a name as an identifier of ASCII letters and digits that begins with a capital letter, such as
// PlaceOrder for place-order. It is bounded, and not unique.
func Exported(name string) string {
	var b strings.Builder
	upper := true
	for _, r := range name {
		if !isWord(r) || r == '_' {
			upper = true
			continue
		}
		if upper {
			r = unicode.ToUpper(r)
		}
		upper = false
		b.WriteRune(r)
	}
	if b.Len() == 0 || '0' <= b.String()[0] && b.String()[0] <= '9' {
		return Bounded("X" + b.String())
	}
	return Bounded(b.String())
}

// Word returns a name as an identifier of ASCII letters, digits and underscores, such as get_sum for get-sum. It is
// bounded, and not unique, and may be a keyword.
func Word(name string) string {
	word := strings.Map(func(r rune) rune {
		if !isWord(r) {
			return '_'
		}
		return r
	}, name)
	if word == "" || '0' <= word[0] && word[0] <= '9' {
		word = "_" + word
	}
	return Bounded(word)
}

func isWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// maxLine is the length of the longest line of a comment, in bytes.
const maxLine = 2000

// Line returns a text as one line of visible characters for a comment, of at most 2,000 bytes and "…".
func Line(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return -1
		}
		return r
	}, text))
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return text
}

// maxLines is the number of lines of a comment.
const maxLines = 500

// Lines returns a text as lines for a comment, as [Line] does: at most 500.
func Lines(text string) (lines []string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if len(lines) == maxLines {
			return append(lines, "…")
		}
		lines = append(lines, Line(line))
	}
	return lines
}

package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// words ranges over the words of a text, in lower case. A name with changes of case, such as
// readURL, gives its parts and the whole.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			var run string
			run, text = nextRun(text)
			parts := 0
			for rest := run; rest != ""; parts++ {
				end := partEnd(rest)
				if !yield(normal(rest[:end])) {
					return
				}
				rest = rest[end:]
			}
			if parts > 1 && !hasIdeograph(run) && !yield(normal(run)) {
				return
			}
		}
	}
}

// nextRun returns the first run of letters and digits, and the rest of the text.
func nextRun(text string) (run, rest string) {
	start := -1
	for i, r := range text {
		switch {
		case isWordRune(r):
			if start < 0 {
				start = i
			}
		case start >= 0:
			return text[start:i], text[i:]
		}
	}
	if start < 0 {
		return "", ""
	}
	return text[start:], ""
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.Letter, unicode.Number, unicode.Mark)
}

// partEnd returns the end of the first part of a run. A part ends before an upper-case letter that follows another
// rune, or that begins a word after an abbreviation.
func partEnd(run string) int {
	before, size := utf8.DecodeRuneInString(run)
	if isIdeograph(before) {
		return size
	}
	for i, r := range run[size:] {
		i += size
		if isIdeograph(r) || unicode.IsUpper(r) && (!unicode.IsUpper(before) || isLowerAt(run, i+utf8.RuneLen(r))) {
			return i
		}
		before = r
	}
	return len(run)
}

func isLowerAt(run string, i int) bool {
	r, _ := utf8.DecodeRuneInString(run[i:])
	return unicode.IsLower(r)
}

// isIdeograph reports whether a rune belongs to a script without spaces between words. Each such
// rune counts as a word.
func isIdeograph(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func hasIdeograph(run string) bool {
	for _, r := range run {
		if isIdeograph(r) {
			return true
		}
	}
	return false
}

// normal returns a word in lower case, of at most about maxWord bytes.
func normal(word string) string {
	for i := range word {
		if i >= maxWord {
			word = word[:i]
			break
		}
	}
	return strings.ToLower(word)
}

// stemOf returns the same form for the inflections of most English words, which is not always a
// word: repositories and repository become repositori. Other words are their own stems.
func stemOf(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return word
	}
	return english.Stem(word, true)
}

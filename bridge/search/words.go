package search

import (
	"bytes"
	"iter"
	"unicode"
	"unicode/utf8"
)

// words ranges over the normalized words of a text. A name with changes of case, such as
// readURL, gives its parts and the whole. A slice is valid until the next one.
func words(text string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var room [maxWord + utf8.UTFMax]byte
		for text != "" {
			var run string
			run, text = nextRun(text)
			parts := 0
			for rest := run; rest != ""; parts++ {
				end := partEnd(rest)
				if !yield(normal(room[:0], rest[:end])) {
					return
				}
				rest = rest[end:]
			}
			if parts > 1 && !hasIdeograph(run) && !yield(normal(room[:0], run)) {
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

// partEnd returns the end of the first part of a run: before an upper-case letter that follows
// another rune, or that begins a word after an abbreviation.
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

// normal appends the normalized form of a word, of at most about maxWord bytes.
func normal(dst []byte, word string) []byte {
	for _, r := range word {
		if len(dst) >= maxWord {
			break
		}
		dst = utf8.AppendRune(dst, unicode.ToLower(r))
	}
	return singular(dst)
}

// singular returns the same form for the singular and plural of most English words, which is not
// always a word: caches and cache become cach.
func singular(word []byte) []byte {
	n := len(word)
	switch {
	case n < 3:
		return word
	case n > 4 && bytes.HasSuffix(word, []byte("ies")):
		word[n-3] = 'y'
		return word[:n-2]
	case word[n-1] == 's' && word[n-2] != 's' && word[n-2] != 'u':
		word = word[:n-1]
	}
	for _, ending := range [...]string{"che", "she", "sse", "xe", "ze"} {
		if bytes.HasSuffix(word, []byte(ending)) {
			return word[:len(word)-1]
		}
	}
	return word
}

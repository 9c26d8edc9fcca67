package main

import (
	"go/ast"
	"go/doc/comment"
	"strings"
	"unicode"
	"unicode/utf8"
)

// describe is what a comment says of a name, for those who know the thing by another
// name: its first paragraph, on one line.
func (f *sourceFile) describe(name string, doc *ast.CommentGroup) string {
	parser := comment.Parser{
		LookupPackage: func(name string) (string, bool) { path, ok := f.imports[name]; return path, ok },
		LookupSym:     func(string, string) bool { return true },
	}
	for _, block := range parser.Parse(doc.Text()).Content {
		if paragraph, ok := block.(*comment.Paragraph); ok {
			printer := comment.Printer{TextWidth: -1}
			text := printer.Text(&comment.Doc{Content: []comment.Block{paragraph}})
			return withoutName(name, strings.TrimSpace(string(text)))
		}
	}
	return ""
}

// withoutName drops the name that a comment begins with, where what follows can stand
// alone: "Search finds items." becomes "Finds items.", and "Query is the search term"
// "The search term"; "Limit must not be negative" stays.
func withoutName(name, text string) string {
	rest, ok := strings.CutPrefix(text, name+" ")
	if !ok {
		return text
	}
	verb, after, more := strings.Cut(rest, " ")
	switch {
	case verb == "is" || verb == "are":
		if !more {
			return text
		}
		rest = after
	case !isVerb(strings.TrimRight(verb, ".,;:")):
		return text
	}
	first, size := utf8.DecodeRuneInString(rest)
	return string(unicode.ToUpper(first)) + rest[size:]
}

// isVerb tells a word in small letters that ends as verbs after a name do. Others with
// that end, as in "Fail always fails", can begin a sentence as well.
func isVerb(word string) bool {
	return strings.HasSuffix(word, "s") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == ""
}

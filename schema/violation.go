package schema

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Violation is one thing that is wrong with an instance. Its text is written
// so that a language model can repair what it sent.
type Violation struct {
	// Pointer is the JSON Pointer (RFC 6901) of the value; "" is the whole.
	Pointer string
	// Keyword is the keyword of the schema that is violated; "duplicate" for a
	// member given twice, "syntax" for a text that is not JSON, and "false" for
	// a value where none may be.
	Keyword string
	// Expected says what the schema wants, such as "at most 100". For a missing
	// member it is the member's name.
	Expected string
	// Got says what came, such as "500" or "the number 7"; "" where there is
	// nothing to say.
	Got string
	// Accepted lists the members that the object may have, where a member is
	// missing or unknown.
	Accepted []string
}

// String says where, and what.
func (v Violation) String() string {
	return "at " + strconv.Quote(cutAt(v.Pointer, maxPointer)) + ": " + v.words()
}

// words says what, without the place.
func (v Violation) words() string {
	switch v.Keyword {
	case "required":
		text := "missing " + strconv.Quote(cut(v.Expected))
		if len(v.Accepted) > 0 {
			text += " (accepted: " + strings.Join(v.Accepted, ", ") + ")"
		}
		return text
	case "additionalProperties":
		if len(v.Accepted) == 0 {
			return "unknown member; none is accepted"
		}
		return "unknown member; accepted: " + strings.Join(v.Accepted, ", ")
	case "duplicate":
		return "given twice"
	case "syntax":
		return v.Got
	}
	text := "expected " + v.Expected
	if v.Got != "" {
		text += ", got " + v.Got
	}
	return text
}

// same reports whether two violations say the same.
func (v Violation) same(other Violation) bool {
	return v.Pointer == other.Pointer && v.Keyword == other.Keyword && v.Expected == other.Expected
}

// ValidationError lists what is wrong with an instance, at most
// [MaxViolations] things.
type ValidationError struct {
	Violations []Violation
}

// Error joins the violations, one a line.
func (e *ValidationError) Error() string {
	lines := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		lines[i] = v.String()
	}
	return strings.Join(lines, "\n")
}

// BudgetError says that an instance was not judged, because that would take
// more work than is allowed, or has a number beyond [MaxNumberDigits] or
// [MaxNumberExponent].
type BudgetError struct {
	Pointer string // where it was noticed, a JSON Pointer
	Reason  string
}

// Error says where, and what.
func (e *BudgetError) Error() string {
	return "schema: at " + strconv.Quote(cutAt(e.Pointer, maxPointer)) + ": " + e.Reason
}

// literalText is a value as a message repeats it.
func literalText(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	switch jsonscan.KindOf(raw) {
	case jsonscan.Object:
		return "an object"
	case jsonscan.Array:
		return "an array"
	case jsonscan.String:
		return strconv.Quote(cut(jsonscan.Unquote(raw)))
	}
	return cut(string(raw))
}

// typedText is a value with its type, for messages about types.
func typedText(raw []byte) string {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return "the string " + literalText(raw)
	case jsonscan.Number:
		return "the number " + literalText(raw)
	case jsonscan.Bool:
		return "the boolean " + literalText(raw)
	}
	return literalText(raw)
}

// cut shortens a peer's text to what a message may hold.
func cut(text string) string { return cutAt(text, maxQuoted) }

func cutAt(text string, end int) string {
	if len(text) <= end {
		return text
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// alternatives joins the values an instance may have.
func alternatives(values [][]byte) string {
	if len(values) == 1 {
		return literalText(values[0])
	}
	var texts []string
	for _, value := range values[:min(len(values), maxListed)] {
		texts = append(texts, literalText(value))
	}
	if len(values) > maxListed {
		texts = append(texts, "…")
	}
	return "one of " + strings.Join(texts, ", ")
}

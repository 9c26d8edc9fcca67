package schema

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Violation is one error in an instance. Its text tells a language model what to correct.
type Violation struct {
	// Pointer is the JSON Pointer (RFC 6901) of the value; "" is the whole instance. A pointer of
	// more than 4 KiB is cut and ends with "…".
	Pointer string
	// Keyword is the violated keyword of the schema. It is "duplicate" for a member given
	// twice, "undescribed" for violations that need too much memory to be described, "syntax" for
	// a text that is not JSON, "false" for a value where the schema is
	// false, and "decode" for a value that the Go type does not accept.
	Keyword string
	// Expected describes the values that the schema accepts, such as "at most 100". For a
	// missing member it is the name of the member.
	Expected string
	// Got describes the value, such as "500" or "the number 7". It may be "".
	Got string
	// Accepted lists the members that the object may have, if a member is missing or unknown.
	Accepted []string
}

// String returns the pointer and the message. A violation of the whole instance has no pointer.
func (v Violation) String() string { return placed(v.Pointer) + v.message() }

// placed returns the start of a message about the value at a pointer.
func placed(pointer string) string {
	if pointer == "" {
		return ""
	}
	return "at " + strconv.Quote(cutAt(pointer, maxPointer)) + ": "
}

// message returns the text without the pointer.
func (v Violation) message() string {
	switch v.Keyword {
	case "required":
		text := "missing " + strconv.Quote(cut(v.Expected))
		if len(v.Accepted) > 0 {
			text += " (accepted: " + cutAt(strings.Join(v.Accepted, ", "), maxNames) + ")"
		}
		return text
	case "additionalProperties":
		if len(v.Accepted) == 0 {
			return "unknown member; none is accepted"
		}
		return "unknown member; accepted: " + cutAt(strings.Join(v.Accepted, ", "), maxNames)
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

// same reports whether two violations have the same meaning.
func (v Violation) same(other Violation) bool {
	return v.Pointer == other.Pointer && v.Keyword == other.Keyword && v.Expected == other.Expected
}

// ValidationError reports an instance that does not match the schema.
type ValidationError struct {
	Violations []Violation // at least one, at most 32
}

// Error returns the violations, one per line.
func (e *ValidationError) Error() string {
	lines := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		lines[i] = v.String()
	}
	return strings.Join(lines, "\n")
}

// BudgetError reports an instance that was not validated because it exceeds a limit: the work of
// [CompileOptions.MaxWork], or one of those in the package documentation.
type BudgetError struct {
	Pointer string // the JSON Pointer of the value where the limit was exceeded
	Reason  string
}

// Error returns the pointer and the reason.
func (e *BudgetError) Error() string {
	return "schema: " + placed(e.Pointer) + e.Reason
}

// literalText returns a value as messages repeat it.
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

// typedText returns a value with its type, for messages about types.
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

// cut shortens the text of a peer for a message.
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

// pointerOf returns a pointer that continues another with tokens. It has about maxPath bytes at most.
func pointerOf(start string, tokens ...string) string {
	text := strings.Builder{}
	text.WriteString(start)
	for _, token := range tokens {
		if text.Len() > maxPath {
			break
		}
		text.WriteString("/" + jsonscan.EscapeToken(cutAt(token, maxPath)))
	}
	return cutAt(text.String(), maxPath)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// alternatives joins accepted values.
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

// valueAt returns the part of a valid JSON value that the tokens of a JSON Pointer lead to. If there
// is none it returns the last part on the way.
func valueAt(value []byte, tokens iter.Seq[string]) []byte {
	for token := range tokens {
		part, _ := jsonscan.Child(value, token)
		if part == nil {
			break
		}
		value = part
	}
	return value
}

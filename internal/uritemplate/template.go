package uritemplate

import (
	"fmt"
	"slices"
	"strings"

	rfc6570 "github.com/yosida95/uritemplate/v3"
)

const (
	// MaxTemplate is the length of the longest template that [Parse] accepts, in bytes.
	MaxTemplate = 8 << 10
	// MaxExpressions is the largest number of expressions in one template.
	MaxExpressions = 64
	// MaxURI is the length of the longest URI that [Matcher.Match] matches, in bytes.
	MaxURI = 64 << 10
)

// A Template is a parsed URI template. Use [Parse] to make one.
type Template struct {
	parts []part
	names []string
}

// A part is literal text or, if variables is not empty, an expression.
type part struct {
	text      string // as written; an expression includes its braces
	operator  byte   // 0 for simple expansion
	variables []variable
}

type variable struct {
	name    string
	prefix  bool // the expression takes only the first characters, as in {x:3}
	explode bool
}

// A SyntaxError reports text that is not a template.
type SyntaxError struct {
	Text   string // the invalid expression or literal text; "" for the template as a whole
	Reason string
}

func (e *SyntaxError) Error() string { return describe(e.Text, e.Reason) }

// An UnmatchableError reports a valid template that URIs cannot be matched against.
type UnmatchableError struct {
	Text   string // the expression or literal text that cannot be matched, as written
	Reason string // which feature is not supported, and what to write instead
}

func (e *UnmatchableError) Error() string { return describe(e.Text, e.Reason) }

func describe(text, reason string) string {
	if text == "" {
		return "URI template: " + reason
	}
	return fmt.Sprintf("URI template: %.80q: %s", text, reason)
}

// Parse reads a template of at most [MaxTemplate] bytes and [MaxExpressions] expressions in the
// grammar of RFC 6570, section 2. The error is a [*SyntaxError].
func Parse(text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, &SyntaxError{Reason: fmt.Sprintf("%d bytes given, at most %d accepted", len(text), MaxTemplate)}
	}
	t := &Template{}
	expressions := 0
	for rest := text; rest != ""; {
		piece := nextPiece(rest)
		rest = rest[len(piece):]
		// The library checks the grammar but exports only the names of variables. It reads one
		// piece at a time so that an error can name the invalid piece.
		parsed, err := rfc6570.New(piece)
		if err != nil {
			return nil, &SyntaxError{Text: piece, Reason: err.Error()}
		}
		if piece[0] != '{' {
			t.parts = append(t.parts, part{text: piece})
			continue
		}
		if expressions++; expressions > MaxExpressions {
			return nil, &SyntaxError{Text: piece, Reason: fmt.Sprintf("at most %d expressions accepted", MaxExpressions)}
		}
		t.parts = append(t.parts, readExpression(piece))
		for _, name := range parsed.Varnames() {
			if !slices.Contains(t.names, name) {
				t.names = append(t.names, name)
			}
		}
	}
	return t, nil
}

// nextPiece returns the expression or the run of literal text that text begins with.
func nextPiece(text string) string {
	end := strings.IndexByte(text, '{')
	if end == 0 {
		end = strings.IndexByte(text, '}') + 1
	}
	if end <= 0 {
		return text
	}
	return text[:end]
}

// readExpression returns the parts of a valid expression.
func readExpression(text string) part {
	list := text[1 : len(text)-1]
	p := part{text: text}
	if strings.IndexByte("+#./;?&", list[0]) >= 0 {
		p.operator, list = list[0], list[1:]
	}
	for spec := range strings.SplitSeq(list, ",") {
		name, _, prefix := strings.Cut(spec, ":")
		name, explode := strings.CutSuffix(name, "*")
		p.variables = append(p.variables, variable{name, prefix, explode})
	}
	return p
}

// IsList reports whether the values of a variable are lists: those of {/x*}, {?x*} and {&x*}.
func (t *Template) IsList(name string) bool {
	for _, p := range t.parts {
		if p.operator != '/' && p.operator != '?' && p.operator != '&' {
			continue
		}
		if slices.ContainsFunc(p.variables, func(v variable) bool { return v.name == name && v.explode }) {
			return true
		}
	}
	return false
}

// Names returns the names of the template's variables in order of first appearance.
func (t *Template) Names() []string { return slices.Clone(t.names) }

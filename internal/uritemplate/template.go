package uritemplate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	rfc6570 "github.com/yosida95/uritemplate/v3"
)

// A Template is a parsed URI template. Make one with [Parse].
type Template struct {
	text  string
	parts []part
	names []string
}

// part is literal text or, if variables is not empty, an expression.
type part struct {
	text      string // as written, an expression with its braces
	operator  byte   // 0 for simple expansion
	variables []variable
}

type variable struct {
	name    string
	prefix  int // longest prefix in characters, 0 for the whole value
	explode bool
}

// Parse reads a template of up to [MaxTemplate] bytes and [MaxExpressions]
// expressions in the grammar of RFC 6570, section 2. The error is a [*SyntaxError].
func Parse(text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, &SyntaxError{Reason: fmt.Sprintf("%d bytes given, at most %d accepted", len(text), MaxTemplate)}
	}
	t := &Template{text: text}
	expressions := 0
	for rest := text; rest != ""; {
		piece := nextPiece(rest)
		rest = rest[len(piece):]
		// The grammar is the library's, which keeps what it read to itself.
		if _, err := rfc6570.New(piece); err != nil {
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
	}
	t.names = variableNames(t.parts)
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

// readExpression takes apart an expression that is known to be valid.
func readExpression(text string) part {
	list := text[1 : len(text)-1]
	p := part{text: text}
	if strings.IndexByte("+#./;?&", list[0]) >= 0 {
		p.operator, list = list[0], list[1:]
	}
	for spec := range strings.SplitSeq(list, ",") {
		name, prefix, _ := strings.Cut(spec, ":")
		name, explode := strings.CutSuffix(name, "*")
		length, _ := strconv.Atoi(prefix) // no prefix: 0
		p.variables = append(p.variables, variable{name, length, explode})
	}
	return p
}

func variableNames(parts []part) []string {
	var names []string
	seen := make(map[string]bool)
	for _, p := range parts {
		for _, v := range p.variables {
			if !seen[v.name] {
				seen[v.name] = true
				names = append(names, v.name)
			}
		}
	}
	return names
}

// String returns the template as it was written.
func (t *Template) String() string { return t.text }

// Names returns the names of the template's variables in order of first appearance.
func (t *Template) Names() []string { return slices.Clone(t.names) }

// Prefix returns the literal text before the first expression, as written.
// A template without expressions is its own prefix.
func (t *Template) Prefix() string {
	if len(t.parts) == 0 || t.parts[0].variables != nil {
		return ""
	}
	return t.parts[0].text
}

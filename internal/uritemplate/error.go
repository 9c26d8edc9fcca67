package uritemplate

import "fmt"

// A SyntaxError says why [Parse] refused a template.
type SyntaxError struct {
	Text   string // the expression or literal text at fault; empty if it is the template as a whole
	Reason string // what is wrong and what was expected
}

func (e *SyntaxError) Error() string { return describe(e.Text, e.Reason) }

// An UnmatchableError says why a valid template can be expanded but not matched.
type UnmatchableError struct {
	Text   string // the expression or literal text at fault, as written
	Reason string // what is not supported and what is
}

func (e *UnmatchableError) Error() string { return describe(e.Text, e.Reason) }

// A ValueError says why [Template.Expand] refused the value of a variable.
type ValueError struct {
	Name   string // the variable; empty if it is the URI as a whole
	Reason string // what is wrong and what was expected
}

func (e *ValueError) Error() string { return describe(e.Name, e.Reason) }

func describe(text, reason string) string {
	if text == "" {
		return "URI template: " + reason
	}
	return fmt.Sprintf("URI template: %.80q: %s", text, reason)
}

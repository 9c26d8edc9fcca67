package openapi

import (
	"errors"
	"fmt"
)

// A DocumentError says why a document, or one of its operations, cannot be
// offered. [New] returns the first of them, joined by [errors.Join].
type DocumentError struct {
	// Operation is the operation's method and path, such as "GET /pets"; empty
	// when the document as a whole is at fault.
	Operation string
	// Reason says what was expected and what is there.
	Reason string
}

// Error names the operation and the reason.
func (e *DocumentError) Error() string {
	if e.Operation == "" {
		return "openapi: " + e.Reason
	}
	return "openapi: " + e.Operation + ": " + e.Reason
}

func documentError(format string, args ...any) error {
	return &DocumentError{Reason: fmt.Sprintf(format, args...)}
}

// problems collects what is wrong with a document, so that rules can exclude all of
// it at once.
type problems struct {
	list []error
	more int
}

func (p *problems) add(operation string, err error) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, &DocumentError{Operation: operation, Reason: err.Error()})
}

func (p *problems) err() error {
	if p.more > 0 {
		p.list = append(p.list, fmt.Errorf("openapi: %d more operations have problems", p.more))
	}
	return errors.Join(p.list...)
}

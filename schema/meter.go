package schema

import (
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/pattern"
)

// A meter counts the work of one validation, in units of about a nanosecond.
type meter struct{ work, limit int64 }

// Costs of what does not depend on the bytes of the instance.
const (
	valueCost   = 32  // one schema applied to one value of the raw bytes
	patternCost = 5   // one byte matched, for each unit of the pattern's size
	reportCost  = 512 // one violation found
	readCost    = 2   // one byte read again
	lengthCost  = 4   // one byte of a text that is counted in code points
	nameCost    = 64  // one member that the schema does not know, remembered to find it twice
)

func (m *meter) spend(units int) { m.work += int64(units) }

func (m *meter) isEmpty() bool { return m.work > m.limit }

// match is the cost of matching a text of n bytes.
func match(p *pattern.Pattern, n int) int { return patternCost * (n + 1) * p.Size() }

// exceeded is the error of a meter that is empty.
func (m *meter) exceeded(pointer string) error {
	return &BudgetError{Pointer: pointer, Reason: fmt.Sprintf("validating the value takes more than %d units of work", m.limit)}
}

// A patterns compiles the regular expressions of one schema.
type patterns struct {
	compiled map[string]*pattern.Pattern
	size     int
}

// compile compiles an expression, each distinct one once. The error is a reason
// for a CompileError.
func (p *patterns) compile(text string) (*pattern.Pattern, error) {
	if known, ok := p.compiled[text]; ok {
		return known, nil
	}
	if p.size > MaxPatternsSize {
		return nil, fmt.Errorf("the patterns of a schema may have %d instructions in all", MaxPatternsSize)
	}
	compiled, err := pattern.Compile(text)
	if _, ok := errors.AsType[*pattern.SizeError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("RE2 (package regexp) cannot hold this: %w", err)
	}
	if p.compiled == nil {
		p.compiled = map[string]*pattern.Pattern{}
	}
	p.compiled[text] = compiled
	p.size += compiled.Size()
	return compiled, nil
}

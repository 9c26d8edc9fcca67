package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxBytes is the length of the longest expression, in bytes.
	MaxBytes = 16 << 10
	// MaxSize is the size of the largest expression; see [Pattern.Size].
	MaxSize = 10_000
)

// rangesPerUnit is the number of ranges of a character class that take the memory of one
// instruction.
const rangesPerUnit = 8

// A Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	*regexp.Regexp
	size int
}

// Size returns the approximate number of instructions of the compiled expression. Matching a text
// of n bytes takes at most about n*Size steps.
func (p *Pattern) Size() int { return p.size }

// A SizeError reports an expression that is too large.
type SizeError struct {
	What string // what is limited: "bytes" or "instructions"
	Max  int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("a pattern may have %d %s", e.Max, e.What)
}

// Compile compiles an expression with the syntax of package regexp. The error
// is a [*SizeError] or a [*syntax.Error].
func Compile(text string) (*Pattern, error) {
	if len(text) > MaxBytes {
		return nil, &SizeError{What: "bytes", Max: MaxBytes}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		var invalid *syntax.Error
		if errors.As(err, &invalid) && invalid.Code == syntax.ErrLarge {
			return nil, &SizeError{What: "instructions", Max: MaxSize}
		}
		return nil, fmt.Errorf("error parsing regexp: %w", err)
	}
	size := measure(tree) + classes(tree)/rangesPerUnit
	if size > MaxSize {
		return nil, &SizeError{What: "instructions", Max: MaxSize}
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &Pattern{compiled, size}, nil
}

// measure estimates the number of instructions. The result is at most a little above MaxSize, so
// that it cannot overflow.
func measure(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral, syntax.OpConcat:
		size = len(re.Rune)
	case syntax.OpCapture:
		size = 2
	case syntax.OpAlternate:
		size = len(re.Sub)
	}
	for _, sub := range re.Sub {
		size = min(size+measure(sub), MaxSize+1)
	}
	if re.Op == syntax.OpRepeat {
		times := max(re.Max, re.Min+1) // {n,} repeats the last copy
		size = min(size*times, MaxSize+1)
	}
	return size
}

// classes counts the ranges of all character classes, once for all copies of a repeated class.
func classes(re *syntax.Regexp) int {
	n := 0
	if re.Op == syntax.OpCharClass {
		n = len(re.Rune) / 2
	}
	for _, sub := range re.Sub {
		n += classes(sub)
	}
	return n
}

// Package pattern compiles regular expressions that peers wrote. Package
// regexp matches in time proportional to the text and to the size of the
// compiled program, and a short expression can compile to millions of
// instructions: "(.{1000})" written a thousand times is one million. This
// package measures an expression before it compiles it.
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
	// MaxSize is the size of the largest expression: see [Pattern.Size].
	MaxSize = 10_000
)

// rangesPerUnit is how many ranges of a character class count as one
// instruction, by the memory that they take.
const rangesPerUnit = 8

// A Pattern is a compiled regular expression. It may be used by any number of
// goroutines concurrently.
type Pattern struct {
	*regexp.Regexp
	size int
}

// Size is about how many instructions the compiled expression has. Matching a
// text of n bytes takes at most about n*Size steps.
func (p *Pattern) Size() int { return p.size }

// A SizeError reports an expression that is too large.
type SizeError struct {
	What string // the measure that is exceeded: bytes or instructions
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

// measure estimates the number of instructions. The result is at most a little
// above MaxSize, so that it cannot overflow.
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

// classes counts the ranges of all character classes. Copies of a repeated
// class share theirs.
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

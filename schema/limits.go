package schema

import (
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/pattern"
)

// Limits on schemas and instances. They bound what a hostile peer can cause and are far above
// what ordinary schemas need.
const (
	// maxSchemaBytes is the size of the largest schema that is compiled. It applies to each
	// resource separately.
	maxSchemaBytes = 256 << 10
	// maxSchemaDepth is how deeply a schema may be nested.
	maxSchemaDepth = 128
	// maxSubschemas is how many schemas a schema may consist of.
	maxSubschemas = 10_000
	// defaultMaxWork is the work that validating one instance may take, in units of about a
	// nanosecond, if [CompileOptions.MaxWork] is 0. Applying a schema to a value costs a fixed
	// number of units, and units for the bytes that each keyword reads: a string of n bytes
	// costs 4n for its length, 2n for a comparison, and 5n times the size of a pattern.
	defaultMaxWork = 1_000_000_000
	// defaultMaxMemory is how many bytes validations may use at a time; see [Memory]. A value for the
	// general validator takes about 16 bytes for each member or item, 16 for each string or number
	// and 400 for each object.
	defaultMaxMemory = 48 << 20
	// maxDefaults is how many bytes of defaults, and of digits of integers such as 1e100, decoding
	// adds to one instance. A short list of empty objects could become as long as all their defaults.
	maxDefaults = 256 << 10
	// maxPatternBytes is the length of the longest regular expression.
	maxPatternBytes = pattern.MaxBytes
	// maxPatternSize is how many instructions a regular expression may compile to.
	maxPatternSize = pattern.MaxSize
	// maxPatternsSize is how many instructions all regular expressions of a schema together may
	// compile to.
	maxPatternsSize = 100_000
	// maxViolations is how many violations a [ValidationError] reports.
	maxViolations = 32
	// maxNumberDigits is how many digits a number may have.
	maxNumberDigits = 1_000
	// maxNumberExponent is the largest exponent of a number. The smallest is -maxNumberExponent.
	maxNumberExponent = 400
	// maxGeneralDepth is how deeply an instance may be nested that the general validator
	// checks. The validator of raw bytes accepts 1,000 levels.
	maxGeneralDepth = 128
)

const (
	maxSearched = 64 << 20 // bytes of a schema that are read to find the targets of references

	// Messages repeat only part of what a peer sent.
	maxQuoted  = 64   // bytes of a value or a name
	maxPointer = 256  // bytes of a pointer
	maxNames   = 4096 // bytes of the accepted names
	maxPath    = 4096 // bytes of a pointer in a Violation
	maxListed  = 64   // accepted values or names
)

// Costs in units of work. The cost of one schema and one value does not depend on the size of the value.
const (
	valueCost   = 32  // one schema applied to one value of the raw bytes
	patternCost = 5   // one byte matched, for each instruction of the pattern
	reportCost  = 512 // one violation found
	readCost    = 2   // one byte read again
	lengthCost  = 4   // one byte of a text whose code points are counted
	nameCost    = 160 // one member that the schema does not name, kept to find duplicates
	numberCost  = 300 // one number converted to a fraction
	digitCost   = 20  // one digit of it, including those that an exponent adds
)

// A meter counts the work of one validation.
type meter struct{ work, limit int64 }

func (m *meter) spend(units int) { m.work += int64(units) }

// spendNumber counts the exact arithmetic on a number. Integers of the usual form need none.
func (m *meter) spendNumber(text []byte) {
	if !isPlain(text) || len(text) > len("-9223372036854775808") {
		m.spend(fractionCost(text))
	}
}

// fractionCost is the cost of converting a number to a fraction.
func fractionCost(text []byte) int {
	digits, exponent := numberSize(text)
	return numberCost + digitCost*(digits+exponent)
}

func (m *meter) isEmpty() bool { return m.work > m.limit }

// matchCost is the cost of matching a text of n bytes.
func matchCost(p *pattern.Pattern, n int) int { return patternCost * (n + 1) * p.Size() }

// exceeded returns the error of an empty meter.
func (m *meter) exceeded(pointer string) error {
	return &BudgetError{Pointer: pointer, Reason: fmt.Sprintf("validating the value takes more than %d units of work", m.limit)}
}

// A patternCache compiles the regular expressions of one schema.
type patternCache struct {
	compiled map[string]*pattern.Pattern
	size     int // of all patterns
}

// compile compiles each distinct expression once. The text of the error is the reason of a
// CompileError.
func (p *patternCache) compile(text string) (*pattern.Pattern, error) {
	if known, ok := p.compiled[text]; ok {
		return known, nil
	}
	if p.size > maxPatternsSize {
		return nil, fmt.Errorf("the patterns of a schema may have %d instructions in all", maxPatternsSize)
	}
	compiled, err := pattern.Compile(text)
	if _, ok := errors.AsType[*pattern.SizeError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("RE2 (package regexp) does not support this pattern: %w", err)
	}
	if p.compiled == nil {
		p.compiled = map[string]*pattern.Pattern{}
	}
	p.compiled[text] = compiled
	p.size += compiled.Size()
	return compiled, nil
}

package schema

import "github.com/dovetail-go/dovetail/internal/pattern"

// Limits on schemas and instances. They bound what a hostile peer can make
// this package do and lie far above what honest schemas need.
const (
	// MaxSchemaBytes is the size of the largest schema that is compiled,
	// each of its resources included on its own.
	MaxSchemaBytes = 256 << 10
	// MaxSchemaDepth is how deeply a schema may be nested.
	MaxSchemaDepth = 128
	// MaxSubschemas is how many schemas a schema may consist of.
	MaxSubschemas = 10_000
	// DefaultMaxWork is the work that validating one instance may take, in units
	// of about a nanosecond, where [CompileOptions.MaxWork] is 0. Applying a schema
	// to a value costs a fixed number of units, and units for the bytes that each
	// keyword reads: a string of n bytes costs 4n for its length, 2n for a
	// comparison, and 5n times the size of a pattern.
	DefaultMaxWork = 1_000_000_000
	// MaxPatternBytes is the length of the longest regular expression.
	MaxPatternBytes = pattern.MaxBytes
	// MaxPatternSize is how many instructions a regular expression may compile to.
	MaxPatternSize = pattern.MaxSize
	// MaxPatternsSize is how many instructions all regular expressions of a schema
	// may compile to.
	MaxPatternsSize = 100_000
	// MaxViolations is how many violations a [ValidationError] reports.
	MaxViolations = 32
	// MaxNumberDigits is how many digits a number may have.
	MaxNumberDigits = 1_000
	// MaxNumberExponent is how large the exponent of a number may be, and,
	// negated, how small.
	MaxNumberExponent = 400
	// MaxGeneralDepth is how deeply an instance may be nested that the general
	// validator judges. The validator for raw bytes takes 1,000 levels.
	MaxGeneralDepth = 128
)

// maxDefaults is how many bytes of defaults are filled in to one instance.
const maxDefaults = 16 << 20

// maxSearched is how many bytes of a schema are read, in all, to find what its
// references lead to where that is no schema that is known already.
const maxSearched = 64 << 20

// Messages repeat what peers wrote only so far.
const (
	maxQuoted  = 64  // bytes of a value or a name
	maxPointer = 256 // bytes of a pointer
	maxListed  = 64  // values or names that are accepted
)

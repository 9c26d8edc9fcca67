package schema

import (
	"math"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// The limits.
const (
	MaxSchemaBytes    = maxSchemaBytes
	MaxSchemaDepth    = maxSchemaDepth
	MaxSubschemas     = maxSubschemas
	MaxPatternBytes   = maxPatternBytes
	MaxPatternSize    = maxPatternSize
	MaxPatternsSize   = maxPatternsSize
	DefaultMaxWork    = defaultMaxWork
	DefaultMaxMemory  = defaultMaxMemory
	MaxDefaults       = maxDefaults
	MaxViolations     = maxViolations
	MaxNumberDigits   = maxNumberDigits
	MaxNumberExponent = maxNumberExponent
	MaxGeneralDepth   = maxGeneralDepth
)

// CompileGeneral compiles every schema for the general validator.
func CompileGeneral(schema []byte) (*Validator, error) {
	g, err := compileGeneral(schema, &CompileOptions{})
	if err != nil {
		return nil, err
	}
	return &Validator{general: g, maxWork: defaultMaxWork, memory: NewMemory(0)}, nil
}

// Verdict reports whether the general validator accepts an instance if it describes no violations.
func Verdict(v *Validator, instance []byte) bool {
	return v.general.verdict.Validate(decodeAny(instance)) != nil
}

// IsGeneral reports whether v uses the general validator.
func IsGeneral(v *Validator) bool { return v.general != nil }

// Work returns the units of work for an instance, without a limit.
func Work(v *Validator, instance []byte) (int64, error) {
	m := meter{limit: math.MaxInt64 / 2}
	if v.general != nil {
		e := estimate{graph: v.general.graph, meter: m, s: jsonscan.New(instance)}
		err := e.instance(len(instance))
		return e.work, err
	}
	w := newWalker(instance, m)
	err := w.instance(v.root)
	return w.work, err
}

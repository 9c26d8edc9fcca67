// Package schema turns Go types into JSON Schema, compiles JSON Schema into
// validators, and decodes JSON into Go values that a schema has checked.
//
// It speaks JSON Schema 2020-12, which is also what a schema without $schema
// is taken for, and draft-07. It knows nothing of MCP.
//
//   - [For] and [ForType] reflect a Go type. Reflecting follows what
//     github.com/go-json-experiment/json reads and writes, so that a schema
//     never promises a form that decoding refuses. [ForWritten] is for values that
//     are written only, such as results.
//   - [Compile] makes a [Validator]. Schemas that use the keywords of ordinary
//     tool schemas are walked on the raw bytes of the instance, without
//     decoding it and without allocating; any other schema is handed to a
//     general validator. Both say what is wrong in the same words.
//   - [Decoder] does all that stands between raw arguments and a Go value:
//     defaults, validation, one decoding.
//
// # Words
//
// A schema is compiled; an instance is validated against it; what is wrong
// with an instance is a [Violation], and all of them are reported at once.
// Errors by phase have their own types: [TypeError] for a Go type that has no
// schema, [CompileError] for a schema that cannot be used, [ValidationError]
// for an instance that does not fit, [BudgetError] for an instance that would
// take too much work to judge.
//
// # Safety
//
// Schemas and instances may come from a hostile peer. No reference is ever
// fetched from a network or a disk. Regular expressions are RE2: they
// take time linear in the text and in their size, which is bounded. Sizes, depths
// and numbers are bounded by the constants of this package. The work of validating
// is bounded by [CompileOptions.MaxWork].
//
// # Concurrency
//
// A [Validator] and a [Decoder] are immutable and may be used by any number of
// goroutines at once. All functions are safe for concurrent use.
package schema

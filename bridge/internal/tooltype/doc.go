// Package tooltype reads the JSON Schemas of tools as types that programming languages have, and writes them as TypeScript.
//
//	args := tooltype.Input(tool.InputSchema)
//	ts := &tooltype.TypeScript{Short: true}
//	text := ts.Expression(args, "StarRepo") // { owner: string; repo: string }
//
// A [Type] accepts all values that its schema accepts, and often more: patterns, ranges, not and if have no types. A schema that
// refers to itself is a [Type] that contains itself. Schemas may be hostile: what a type needs is bounded, identifiers
// are ASCII, and [Line] returns text that is harmless in comments.
//
// The package has no state. A [TypeScript] must be used by one goroutine at a time.
package tooltype

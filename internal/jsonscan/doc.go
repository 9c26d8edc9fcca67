// Package jsonscan walks JSON texts strictly and in one pass, and decodes
// nothing: what it returns are slices of its input.
//
// # Strictness
//
// The grammar is that of RFC 8259, without extensions and without a byte order
// mark. Strings must be valid UTF-8, and an escaped surrogate must come with
// its other half, because anything else would have to be replaced, and two
// different names could become one. Values nest at most [MaxDepth] deep.
// Numbers are not looked at beyond their grammar: 1e999 is a number.
//
// Whether an object has a member twice is asked only where an object is read:
// by [ReadObject], by [Splice], by the scanner of [NewUnique] and by whoever uses
// [Keys]. RFC 8259 leaves the meaning of such an object open, so the peers of a
// message may each see another one.
//
// # Vocabulary
//
// Raw is text as it stands in the input; a raw key or string has its quotes and
// escapes. A member is a key with its value, an element a value in an array.
//
// # Concurrency
//
// Functions may be called from any goroutine. A [Scanner], [Members] and
// [Keys] belong to one goroutine at a time. Nothing is kept of an input but the
// slices that are returned.
package jsonscan

// Package jsonscan scans JSON texts strictly and in one pass. It decodes nothing: most of
// its results are slices of the input.
//
// A [Scanner] walks a text. [ReadObject] returns the members of one object, [Find] one
// member, and [Splice] replaces members and leaves all other bytes as they are. [ParsePointer],
// [FormatPointer] and [FindPointer] read, write and follow JSON Pointers (RFC 6901): "/lines/0/a~1b" has the
// tokens "lines", "0" and "a/b".
//
// # Terms
//
// A raw value is the text of a value in the input. A raw key or string includes its quotes
// and escapes. A member is a key with its value; an element is a value in an array.
//
// # Strictness
//
//  1. The grammar is RFC 8259 without extensions and without a byte order mark.
//  2. Strings must be valid UTF-8: replacing other bytes could make two different names equal.
//     An escaped surrogate without its other half is accepted (RFC 8259, section 8.2) and keeps
//     its bytes. Its value is U+FFFD everywhere, so two names that differ only in such escapes
//     are duplicates.
//  3. Values nest at most [MaxDepth] deep, and an object that is read has at most
//     [MaxMembers] members.
//  4. [ReadObject], [Splice] and [Keys] refuse an object with a duplicate member. RFC 8259
//     leaves its meaning open, so each reader could see another object. Other functions do
//     not look for duplicates.
//  5. Numbers are checked for their grammar only: 1e999 is a number.
//
// # Concurrency
//
// Functions may be called concurrently. A [Scanner], [Members] or [Keys] must be used by one
// goroutine at a time.
package jsonscan

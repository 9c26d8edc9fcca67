// Package codec encodes and decodes Go values of plain types: strings, booleans, numbers and
// structs of these.
//
// It gives the results of github.com/go-json-experiment/json several times faster. Everything that
// is not plain, in a type or in a text, it leaves to that library: [Codec.Decode] and
// [Codec.Append] return false, and the caller then uses the library for the whole value. The
// package therefore reports no errors.
package codec

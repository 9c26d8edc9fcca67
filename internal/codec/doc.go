// Package codec reads and writes Go values of plain types: strings, booleans, numbers and
// structs of these. It does so as github.com/go-json-experiment/json does, in a fraction of
// the time, and does nothing else: whatever is not plain, in a type or in a text, is left to
// that library, its errors too.
package codec

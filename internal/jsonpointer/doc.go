// Package jsonpointer reads and writes JSON Pointers (RFC 6901) and follows them in JSON text.
//
// A pointer such as "/lines/0/a~1b" is a list of reference tokens: "lines", "0" and "a/b".
// All functions are safe for concurrent use.
package jsonpointer

// Package planted has a comment with a refused phrase.
package planted

// A caller "who has" asked gets an answer.
var a int

// The caller is told. // want "is told"
var b int

// The latest list.
var c int

// Package pattern compiles regular expressions that peers wrote.
//
// Package regexp matches in time proportional to the text and to the size of the compiled
// expression. A short expression can compile to millions of instructions: "(.{1000})" written a
// thousand times is one million. This package measures an expression before it compiles it, and
// refuses one that is larger than [MaxSize].
package pattern

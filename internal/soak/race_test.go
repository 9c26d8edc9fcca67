//go:build race

package soak

// raced: the race detector takes many times the memory.
const raced = true

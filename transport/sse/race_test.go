//go:build race

package sse_test

// raced: the race detector allocates.
const raced = true

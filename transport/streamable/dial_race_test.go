//go:build race

package streamable_test

// raced: the race detector allocates, and pools forget on purpose.
const raced = true

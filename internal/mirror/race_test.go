//go:build race

package mirror_test

// raced: the race detector allocates.
const raced = true

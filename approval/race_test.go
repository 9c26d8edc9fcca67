//go:build race

package approval_test

// raced: the race detector allocates.
const raced = true

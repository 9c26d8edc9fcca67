//go:build race

package pin_test

// The race detector changes what is allocated.
const raced = true

//go:build race

package policy_test

// The race detector changes what is allocated.
const raced = true

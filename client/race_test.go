//go:build race

package client_test

// raced: the race detector allocates, and pools forget on purpose.
const raced = true

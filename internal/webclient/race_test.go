//go:build race

package webclient_test

// raced: the race detector allocates.
const raced = true

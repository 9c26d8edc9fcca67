//go:build !race

package streamable_test

const raced = false

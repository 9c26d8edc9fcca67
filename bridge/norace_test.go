//go:build !race

package bridge_test

const raced = false

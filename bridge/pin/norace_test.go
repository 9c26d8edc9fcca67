//go:build !race

package pin_test

const raced = false

//go:build !race

package mirror_test

const raced = false

//go:build !race

package edge_test

const raced = false

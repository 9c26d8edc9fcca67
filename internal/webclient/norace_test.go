//go:build !race

package webclient_test

const raced = false

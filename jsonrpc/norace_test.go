//go:build !race

package jsonrpc_test

const raced = false

// Package migrate tests dovetail migrate with programs that use go-sdk and mcp-go: the programs in testdata compile before
// and after, and offer the same.
package migrate

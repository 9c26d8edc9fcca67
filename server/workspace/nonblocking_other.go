//go:build !unix

package workspace

// nonBlocking is nothing: there are no pipes in directories.
const nonBlocking = 0

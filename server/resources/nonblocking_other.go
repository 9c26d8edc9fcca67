//go:build !unix

package resources

// nonBlocking is nothing: there are no pipes in directories.
const nonBlocking = 0

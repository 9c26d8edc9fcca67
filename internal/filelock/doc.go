// Package filelock locks a file for one process.
//
// A lock is advisory: it excludes other callers of this package, in this and in other
// processes. The operating system releases it when the file is closed, also when the process
// ends in any way. Systems without such locks are in lock_other.go; there, nothing is locked.
// A file system without locks is an error of Try. Open uses it without a lock.
package filelock

// Package sharedfile reads, replaces and locks files that several processes use.
//
// [Write] replaces a file as a whole: a reader sees the complete old content or the complete new content, also
// after a crash. The new content is written to a temporary file in the same directory, synced, and renamed.
// Concurrent writers of one file do not disturb each other; the last rename wins.
//
// A lock of [OpenLocked] is advisory: it excludes other callers of this package, in this and in other
// processes. The operating system releases it when the file is closed, also when the process
// ends in any way. Systems without such locks are in lock_other.go; there, nothing is locked.
// A file system without locks is an error of [TryLock]. OpenLocked uses it without a lock.
package sharedfile

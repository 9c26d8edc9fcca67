// Package atomicfile reads and replaces files as a whole.
//
// A reader sees the complete old content or the complete new content, also after a crash.
// The new content is written to a temporary file in the same directory, synced, and renamed.
// Concurrent writers of one file do not disturb each other; the last rename wins.
package atomicfile

// Package procgroup starts child processes that do not outlive this process, where the
// operating system supports that, and with a minimal environment.
//
// A child leads a process group of its own, so that signals reach its children too. When
// the child ends, the rest of the group is killed; on Linux also processes that have left the
// group.
package procgroup

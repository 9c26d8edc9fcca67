// Package spawn starts processes so that they do not outlive this one, where the
// operating system can be told, and that have no more of its environment than they need.
package spawn

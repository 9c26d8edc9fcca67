// Package growth measures whether the cost of an operation grows with what is merely present: tools, sessions, upstreams
// and whatever else a user can have many of.
package growth

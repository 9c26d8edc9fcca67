// Package deadline ends contexts after a timeout that can be paused, so that time spent
// waiting for a person counts in no timeout.
//
//  1. [With] returns a context with a timeout, and [Pause] pauses the timeouts of a context
//     and of all its parents, whichever package has set them. The timeouts of a tool, a
//     client, a bridge and an HTTP request therefore nest.
//  2. An [Activity] extends timeouts while work makes progress.
//  3. [EndPaused] ends the work that waits for a person, and no other work.
package deadline

package era

import "time"

// Bounds of the pauses between two requests for the state of a task. They hold for everything that waits for one: a
// client, a bridge and a server that watches the task of another server.
const (
	// minPoll and maxPoll bound the interval that the server gives.
	minPoll = 50 * time.Millisecond
	maxPoll = time.Minute
	// unspecifiedPoll is the longest pause if the server gives no interval. The first is minPoll.
	unspecifiedPoll = time.Second
	// watchAfter is how long a client asks for a state before it subscribes to the task. It subscribes immediately if the
	// interval is longPoll, so that the result of a short call does not wait for the interval.
	watchAfter = 2 * time.Second
	longPoll   = time.Second
	// watchedPoll is how often a subscriber asks, in case that a notification was lost.
	watchedPoll = 30 * time.Second
	// legacyTaskPoll is that of a server for its client of 2025-11-25, which waits for a result.
	legacyTaskPoll = 2 * time.Second
)

// A TaskPoll returns the pauses between requests for the state of one task. The zero value is ready for use.
type TaskPoll struct{ last time.Duration }

// Next returns the pause after a state with an interval in milliseconds: that of the server, or a growing one if the
// server gives none.
func (p *TaskPoll) Next(ms int64) time.Duration {
	if ms > 0 {
		return max(minPoll, time.Duration(min(ms, maxPoll.Milliseconds()))*time.Millisecond)
	}
	p.last = min(max(2*p.last, minPoll), unspecifiedPoll)
	return p.last
}

// Reset makes the next pause of a server without an interval the first.
func (p *TaskPoll) Reset() { p.last = 0 }

package era

import "time"

// Bounds of waiting for a task. They hold for everything that waits for one: a client, a bridge and a server.
const (
	// minPoll and maxPoll bound the pause between two requests for the state that the server gives.
	minPoll = 50 * time.Millisecond
	maxPoll = time.Minute
	// unspecifiedPoll is the longest pause if the server gives none. The first is minPoll.
	unspecifiedPoll = time.Second
	// watchAfter is how long the state is asked for before subscribing to the task. The subscription begins immediately
	// if the pause is longPoll, so that the result of a short call does not wait for the pause.
	watchAfter = 2 * time.Second
	longPoll   = time.Second
	// watchedPoll is how often a subscriber asks, in case that a notification was lost.
	watchedPoll = 30 * time.Second
	// minTaskRetry and maxTaskRetry bound the pause after a request that has failed. Each is longer than the one before.
	minTaskRetry = 100 * time.Millisecond
	maxTaskRetry = 30 * time.Second
	// maxTaskAttempts is how often a request is made to a server that is busy or has an internal error.
	maxTaskAttempts = 5
	// LostTaskTimeout is how long a bridge waits for a server that it cannot reach.
	LostTaskTimeout = 5 * time.Minute
	// cancelTaskTimeout bounds the request that cancels a task.
	cancelTaskTimeout = 2 * time.Second
	// maxTaskID bounds the id of a task in bytes. It is sent in a header.
	maxTaskID = 4 << 10
)

// A taskPoll returns the pauses between requests for the state of one task. The zero value is ready for use.
type taskPoll struct{ last time.Duration }

// next returns the pause after a state with an interval in milliseconds. It is the interval of the server, or a growing
// pause if the server gives no interval.
func (p *taskPoll) next(ms int64) time.Duration {
	if ms > 0 {
		return max(minPoll, time.Duration(min(ms, maxPoll.Milliseconds()))*time.Millisecond)
	}
	p.last = min(max(2*p.last, minPoll), unspecifiedPoll)
	return p.last
}

// reset makes the next pause of a server without an interval the first.
func (p *taskPoll) reset() { p.last = 0 }

package edge

import "time"

const (
	// freeTime is how long a body may take whatever its rate.
	freeTime = 10 * time.Second
	// slowest is the rate in bytes a second that a body must keep up afterwards.
	slowest = 1 << 10
	// drainTime is how long a connection is kept for the rest of a body that nobody
	// reads.
	drainTime = time.Second
	// firstBuffer is how many bytes are set aside for a body because of its claimed
	// length alone.
	firstBuffer = 64 << 10
	// unknownBuffer is what a body of unknown length gets to begin with.
	unknownBuffer = 4 << 10
	// chunkWindow is how much of a chunked body is read at a time; at the slowest
	// rate it takes less than freeTime.
	chunkWindow = 8 << 10
	// preflightAge is how many seconds a browser may remember the answer to a
	// preflight. Browsers allow no more than two hours.
	preflightAge = "7200"
)

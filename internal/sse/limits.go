package sse

import "time"

const (
	// MaxField is how many bytes a field other than data may have in an event
	// that is read.
	MaxField = 4 << 10
	// MinRetry is the shortest retry time that is read: no server is to be hammered.
	MinRetry = 100 * time.Millisecond
	// MaxRetry is the longest retry time that is read: no client is sent away for good.
	MaxRetry = time.Minute

	// minReadBuffer is what a reader begins with; a stream that fills it gets a
	// bigger one, up to maxReadBuffer.
	minReadBuffer = 4 << 10
	maxReadBuffer = 64 << 10
	// maxEmptyReads is how often in a row a source may give nothing and no error.
	maxEmptyReads = 100
	// writePiece is how many bytes are written under one deadline.
	writePiece = 64 << 10
	// maxQueued is how many bytes may wait to be written before a sender waits.
	maxQueued = 64 << 10
	// maxRecycled is the largest slice of data that a reader uses again.
	maxRecycled = 4 << 10
)

package channel

import "time"

// Defaults of [Options] and [ClientOptions].
const (
	// DefaultWait is how long a second approver waits for the first to go.
	DefaultWait = 5 * time.Second
	// DefaultKeepAlive is how often a ping is sent.
	DefaultKeepAlive = 15 * time.Second
	// DefaultMaxHandlers is how many prompts of a client may be open.
	DefaultMaxHandlers = 1024
)

const (
	// MaxFrame is how many bytes a frame may have.
	MaxFrame = 256 << 10

	// maxWaiting is how many approvers may wait for another to go.
	maxWaiting = 8
	// writeTimeout is how long writing a frame may take.
	writeTimeout = 10 * time.Second
	// closeTimeout is how long a peer may take to close after this side has.
	closeTimeout = time.Second
)

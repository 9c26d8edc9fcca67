package approval

import "time"

// Defaults of [Options].
const (
	// DefaultExpiry is how long a request may wait for its answer.
	DefaultExpiry = 5 * time.Minute
	// DefaultMaxOpen is how many requests may be open.
	DefaultMaxOpen = 1024
	// DefaultMaxPerCaller is how many of them may be one caller's.
	DefaultMaxPerCaller = 32
)

const (
	// MaxArguments is how many bytes of arguments a person can be asked about.
	MaxArguments = 128 << 10
	// MaxReason is how many bytes of an answer's reason are kept.
	MaxReason = 1 << 10
	// MaxText is how many bytes [Request.String] returns.
	MaxText = 500

	// maxRemembered is how many approvals a guard remembers.
	maxRemembered = 10_000
	// maxLine is how many bytes a line of a journal may have.
	maxLine = 1 << 20
)

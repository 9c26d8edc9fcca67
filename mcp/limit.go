package mcp

// A LimitError reports that a peer has exceeded a limit, such as one of client.Limits.
type LimitError struct {
	// Limit is the name of the field that sets the limit.
	Limit string
	// Max is the value of the limit.
	Max int
	// Reason says what has exceeded the limit.
	Reason string
}

// Error returns the reason with the name of the limit.
func (e *LimitError) Error() string { return e.Reason + " (limit " + e.Limit + ")" }

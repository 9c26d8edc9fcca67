package mcp

// A Caller is who makes a call, as the call itself says. It is shared between
// calls: do not change it.
type Caller struct {
	// Version is the revision the caller speaks.
	Version Version
	// Info is what the caller says of itself, nil if nothing. It is not
	// verified: base no decision on it.
	Info *Implementation
	// Capabilities are what the caller can be asked for.
	Capabilities ClientCapabilities
	// LogLevel is the least severe level of log message the caller wants, ""
	// for none.
	LogLevel LoggingLevel
	// Principal names the authenticated caller, "" when the transport does not
	// authenticate.
	Principal string
}

package main

// A Kind says what is done.
type Kind string

const (
	// Call calls the tool echo.
	Call Kind = "call"
	// List lists all tools, through all pages.
	List Kind = "list"
	// Progress calls the tool count, which tells Units times how far it is.
	Progress Kind = "progress"
	// Session opens a session, calls echo Units times and closes the session.
	Session Kind = "session"
	// Cold builds a server with Tools tools, in a process of its own.
	Cold Kind = "cold start"
	// Idle is the memory that a server needs for a session, or for a stream on which
	// a client listens, while nothing happens.
	Idle Kind = "idle"
)

// A Transport says over what.
type Transport string

const (
	// Bytes is none: a server gets the bytes of a request and returns the bytes of its answer.
	Bytes Transport = "bytes"
	// Pipe stays in memory.
	Pipe Transport = "pipe"
	// Stdio goes to a process of its own, by its standard streams.
	Stdio Transport = "stdio"
	// Streamable is Streamable HTTP.
	Streamable Transport = "streamable"
	// SSE is HTTP with server-sent events, the transport of MCP 2024-11-05.
	SSE Transport = "sse"
	// WebSocket is no transport of MCP's, but a common one.
	WebSocket Transport = "ws"
)

// An Era is the version of MCP that both sides have to speak.
type Era string

const (
	// Legacy is the last version with sessions.
	Legacy Era = "2025-11-25"
	// Modern is the first one without.
	Modern Era = "2026-07-28"
)

// A Way is what stands between a client and the tool. Only one peer has others than
// the direct one.
type Way string

const (
	Direct   Way = ""
	Proxied  Way = "proxied"  // a proxy, which calls over the same transport
	Bridged  Way = "bridged"  // a bridge to one server, which calls over the same transport
	Policed  Way = "policed"  // a policy of 100 rules
	Approved Way = "approved" // an approval gate that asks nobody
)

// Work is one thing that every peer does the same way.
type Work struct {
	Kind      Kind
	Transport Transport
	Era       Era
	Way       Way

	// Raw has the tool and its calls untyped: arguments and structured content are
	// JSON, as it comes.
	Raw bool
	// Size is how many bytes the arguments of a call have, as JSON.
	Size int
	// Tools is how many tools there are besides echo or count, named by coldName. For List
	// they are the only ones.
	Tools int
	// InFlight is how many callers there are at once; at least 1.
	InFlight int
	// Sessions is how many idle sessions there are besides.
	Sessions int
	// Streams has a client listen in each of them.
	Streams bool
	// Replicas is how many processes serve, behind a balancer. 0: this process, without one.
	Replicas int
	// Store is the URL of the store of replicas, if there is one.
	Store string
	// Units is how many units of work one operation is; at least 1.
	Units int
}

func (w Way) String() string {
	if w == Direct {
		return "direct"
	}
	return string(w)
}

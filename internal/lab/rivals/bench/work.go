package main

// A Kind is what a peer does.
type Kind string

const (
	// Call calls the tool echo.
	Call Kind = "call"
	// List lists all tools, through all pages.
	List Kind = "list"
	// Progress calls the tool count, which reports progress Units times.
	Progress Kind = "progress"
	// Start starts a server over stdio, calls echo once and ends the server.
	Start Kind = "start"
	// Register builds a server with Tools tools, in a new process.
	Register Kind = "register"
	// Load calls echo over HTTP. The server is a process; only the server is measured.
	Load Kind = "load"
	// Idle opens Sessions sessions, or streams, and measures the memory of the server.
	Idle Kind = "idle"
	// Build builds a small server and measures the program.
	Build Kind = "build"
)

// A Transport connects a client and a server.
type Transport string

const (
	// Pipe stays in memory. Only dovetail has it.
	Pipe Transport = "pipe"
	// Stdio is a child process and its standard streams.
	Stdio Transport = "stdio"
	// Streamable is streamable HTTP.
	Streamable Transport = "streamable"
)

// An Era is the version of MCP that client and server use.
type Era string

const (
	// Legacy is the last version with sessions.
	Legacy Era = "2025-11-25"
	// Modern is the first version without sessions.
	Modern Era = "2026-07-28"
)

// A Path is what is between a client and the server. Only dovetail has others than Direct.
type Path string

const (
	Direct  Path = ""
	Proxied Path = "proxied" // a server that mounts proxies, which use the same transport
	Bridged Path = "bridged" // a server that mounts a bridge, which uses the same transport
)

// Work is one thing that every peer does in the same way.
type Work struct {
	Kind      Kind
	Transport Transport
	Era       Era
	Path      Path

	// Size is the number of bytes of the arguments of a call, as JSON.
	Size int
	// Tools is the number of tools for List and Register, named by toolName.
	Tools int
	// Callers is the number of concurrent callers; at least 1.
	Callers int
	// Upstreams is the number of servers behind a proxy or bridge; at least 1.
	Upstreams int
	// Sessions is the number of idle sessions. With Streams, a client listens in each.
	Sessions int
	Streams  bool
	// Units is the number of units of work of one operation; at least 1.
	Units int
	// Program is the server over stdio. Default: this program.
	Program string
}

// over returns work over a transport.
func over(transport Transport, era Era, kind Kind) Work {
	return Work{Kind: kind, Transport: transport, Era: era, Size: 100, Callers: 1, Upstreams: 1, Units: 1}
}

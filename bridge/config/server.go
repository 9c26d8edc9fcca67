package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
)

// A Type is how a server is reached.
type Type string

// Types of servers.
const (
	Stdio     Type = "stdio" // a child process
	HTTP      Type = "http"  // streamable HTTP
	SSE       Type = "sse"   // HTTP+SSE of 2024-11-05
	WebSocket Type = "ws"
)

// A Server is one server of a file, its texts as they stand there, with variables
// in them. It may hold secrets that were written into the file; printed, it tells
// nothing but its alias and type.
type Server struct {
	// Alias names the server: 1 to 40 of A–Z a–z 0–9 _ - . without two underscores
	// in a row, or one at the end.
	Alias string
	// Type is how the server is reached: as the file says, or as it follows from the
	// command or URL.
	Type Type
	// Command is the program of a [Stdio] server, Args its arguments.
	Command string
	Args    []string
	// Env are variables for the program's environment. They win over those of
	// EnvFile.
	Env map[string]string
	// EnvFile is a file of variables: lines NAME=value, comments with #, values in
	// single quotes as they are, in double quotes with \n, \r, \t, \" and \\.
	EnvFile string
	// Dir is the program's working directory, "" this process's.
	Dir string
	// URL is the address of a server of another type, Headers go with each request.
	URL     string
	Headers map[string]string
	// Disabled servers are left out by [File.Expand].
	Disabled bool
	// Options are our own.
	Options Options
	// Extra are the members that have no meaning here.
	Extra map[string]json.RawMessage

	guessed bool // Type follows from the URL
	file    *File
	places  map[string]place // of members, in file
}

// Format prints the alias and the type.
func (s Server) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%s (%s)", s.Alias, s.Type) }

// MarshalText is what Format prints. JSON and logs are made of it too.
func (s Server) MarshalText() ([]byte, error) { return fmt.Append(nil, s), nil }

// typeOf guesses from a URL. One that says nothing is streamable HTTP, which falls
// back to HTTP+SSE when the server wants that.
func typeOf(text string) Type {
	u, err := url.Parse(text)
	switch {
	case err != nil:
	case u.Scheme == "ws", u.Scheme == "wss":
		return WebSocket
	case path.Base(u.Path) == "sse":
		return SSE
	}
	return HTTP
}

// A place is where a member of a server stands, and its name there.
type place struct {
	field string
	at    int
}

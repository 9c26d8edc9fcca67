// Package gen writes typed clients for the tools of servers.
package gen

import (
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Server is what a client is written for.
type Server struct {
	Name, Version string
	Tools         []mcp.Tool
	Prompts       []mcp.Prompt
}

// maxSource is the length of everything that is written for one server, in bytes.
const maxSource = 16 << 20

// errTooLong means that the source would be longer than maxSource.
var errTooLong = fmt.Errorf("the source would be longer than %d bytes", maxSource)

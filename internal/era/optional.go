package era

import (
	"context"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Bare result can report that it is an object without members of an envelope, and without
// structured content that is not an object. A [Server] looks for it on results. Without it, the server
// searches the text of the result for these.
type Bare interface {
	mcp.Result
	Bare() bool
}

// A streamConn is a connection over one [jsonrpc.Stream], for example over stdio. A [Client] looks for it on
// its connection. Without it, the client probes the version of the server before it opens a session, instead
// of at the same time: a server over HTTP answers the probe.
type streamConn interface {
	Input() context.Context
}

// Package transport says what a transport is: a [Dialer] at the client's end, a
// [Binder] at the server's, a [Link] between them. It moves JSON-RPC and knows
// nothing of MCP.
//
// [Pipe] connects both ends in memory; the packages below carry messages over
// standard streams and networks.
package transport

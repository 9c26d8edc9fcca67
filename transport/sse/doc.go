// Package sse carries messages over HTTP+SSE, the transport of MCP 2024-11-05, as
// servers and clients have it that do not know Streamable HTTP: [Handler] at the
// server's end, [Dial] at the client's.
//
// A client opens an event stream by GET. The first event, "endpoint", names the
// URI to which the client posts its messages; events "message" bring those of the
// server. The stream is the session: when it ends, so do the session and its calls,
// and nothing is taken up again.
//
// MCP 2024-11-05, basic/transports, section HTTP with SSE. Versions since 2025-03-26
// have it for compatibility only: what is new should use package streamable, whose
// client falls back to this one.
package sse

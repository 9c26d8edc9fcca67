// Package sse implements the HTTP+SSE transport of MCP 2024-11-05, for servers and clients
// that do not support Streamable HTTP.
//
// Use it only for compatibility. New programs use package streamable, whose client falls back
// to this transport.
//
//	endpoint := sse.Handler(server, nil)
//	defer endpoint.Close()
//	http.Handle("/sse", endpoint)
//
// # Concepts
//
// A client opens an event stream by GET. The first event, "endpoint", contains the URI to
// which the client posts its messages, or with [Options].SessionHeader the id of the session,
// which the messages then have in a header. Events named "message" contain the messages of the
// server. The stream is the session: when it ends, the session and its calls end too, and
// they cannot be resumed.
//
// [Handler] returns the server's end, an [*handler]. [Dial] returns the client's end, a
// [transport.Dialer].
//
// # Guarantees
//
//  1. An endpoint and a dialer may be used concurrently.
//  2. Messages arrive in the order in which they were written.
//  3. Messages, sessions and waiting memory are bounded by [Options] and [DialOptions].
//  4. A session can be used only by the principal that opened it.
//  5. Errors of calls are *[jsonrpc.CallError]. What HTTP answered is an
//     *httptransport.StatusError in them.
//
// The specification is MCP 2024-11-05, basic/transports, section HTTP with SSE.
package sse

// Package ws implements MCP over WebSocket (RFC 6455).
//
// MCP does not define this transport. Use it where a long-lived connection in both directions
// is wanted and both ends use this package, or another that follows the same rules.
//
//	endpoint := ws.Handler(server, nil)
//	defer endpoint.Close()
//	http.Handle("/mcp", endpoint)
//
// # Concepts
//
// The subprotocol is "mcp". One message is one text message of the WebSocket. The connection
// is the session, and a call is canceled with a notification, as over stdio. The server checks
// Host, Origin and credentials once, in the handshake.
//
// [Handler] returns the server's end, an [*handler]. [Dial] returns the client's end, a
// [transport.Dialer]. See MCP 2026-07-28, basic/transports, section Custom Transports.
//
// # Guarantees
//
//  1. An endpoint and a dialer may be used concurrently.
//  2. Messages arrive in the order in which they were written.
//  3. Messages, sessions and waiting memory are bounded by [Options] and [DialOptions].
//  4. Both ends send pings, and close a connection whose peer is silent.
//  5. A failed handshake is a *[HandshakeError]. Calls that fail because the connection has
//     ended contain a *[CloseError].
package ws

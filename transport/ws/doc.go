// Package ws carries MCP over WebSocket: [Handler] at the server's end, [Dial] at
// the client's.
//
// No version of MCP defines this transport. It follows the rules that MCP has for
// transports of one's own, and those of stdio: the subprotocol is "mcp", one message is
// one text message of the WebSocket, the socket is the session, and a call is cancelled
// with a notification. Whoever may open the socket is checked once, when it opens.
// RFC 6455; MCP 2026-07-28, basic/transports, section Custom Transports.
package ws

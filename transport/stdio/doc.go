// Package stdio carries MCP over standard streams: [Serve] at the server's end,
// [Command] at the client's, which runs a server as a child process. One message
// is one line of UTF-8. MCP 2026-07-28, basic/transports, and every version before.
package stdio

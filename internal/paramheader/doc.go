// Package paramheader implements the HTTP request headers that repeat parts of a request body,
// so that proxies can route a request without reading the body: Mcp-Method, Mcp-Name and, for
// arguments that a tool's input schema annotates with "x-mcp-header", Mcp-Param-*. Clients send
// them, and servers compare them with the body. See MCP 2026-07-28, Streamable HTTP,
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http.
//
// It does not use net/http: a header is a canonical name with its lines. All functions may be
// called concurrently, and a [Params] is immutable.
package paramheader

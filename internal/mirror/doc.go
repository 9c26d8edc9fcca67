// Package mirror deals with the HTTP request headers that mirror the body of a
// request, so that proxies can route it without reading the body: Mcp-Method,
// Mcp-Name and, for arguments that a tool's input schema marks with
// "x-mcp-header", Mcp-Param-*. Clients write them, servers compare them with the
// body (MCP 2026-07-28, Streamable HTTP,
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http).
//
// It knows values, schemas and JSON-RPC, and nothing of net/http: a header is a
// canonical name with its lines.
//
// All functions are safe for concurrent use, and a [Params] is immutable.
package mirror

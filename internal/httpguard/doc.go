// Package httpguard checks requests before an HTTP handler looks at them.
//
//   - A [Guard] checks Host, Origin and method, and answers CORS preflights.
//   - [ReadJSON] reads a body within limits of type, size and time.
//   - [Token] reads a bearer token.
//   - [ServedPaths] returns the paths of a handler around an endpoint.
//   - [Refuse] and [RefuseBusy] answer with a JSON-RPC error.
//
// The Host check stops DNS rebinding: a foreign web page reaches a server on this machine
// under a name of the page's own domain. Comparing Origin with Host does not help, since both
// are that name. The Origin check stops requests of foreign web pages. See MCP 2026-07-28,
// basic/transports/streamable-http, section Security Warning, and the Fetch Standard, section
// CORS protocol.
package httpguard

// Package mcp holds the words of the Model Context Protocol
// (https://modelcontextprotocol.io/specification): its types, methods,
// capabilities, content and codes, for all of 2024-11-05, 2025-03-26,
// 2025-06-18, 2025-11-25 and 2026-07-28 at once.
//
// One type serves every version; a field that only some have says so. What a
// version has no words for is left out where a message is sent, not here. `_meta`
// and members this package does not know survive a round trip.
//
// The package does no I/O and starts no goroutine. Its values may be used by
// several goroutines as long as nobody changes them.
//
// A [Call] is one request with all it needs, an [Handler] answers it, an
// [Middleware] stands in between: servers, clients and bridges share these.
package mcp

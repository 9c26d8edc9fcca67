// Package dovetail is an embeddable library for servers and clients of the Model Context Protocol
// (https://modelcontextprotocol.io/specification).
//
// This package contains no code. Import the packages that you need:
//
//   - [github.com/dovetail-go/dovetail/server]: offer tools, resources and prompts.
//   - [github.com/dovetail-go/dovetail/client]: use those of a server.
//   - [github.com/dovetail-go/dovetail/bridge]: offer the tools, resources and prompts
//     of other servers. [github.com/dovetail-go/dovetail/bridge/gateway] and
//     [github.com/dovetail-go/dovetail/bridge/toolserver] serve programs that do not
//     speak MCP.
//   - [github.com/dovetail-go/dovetail/policy] and
//     [github.com/dovetail-go/dovetail/approval]: decide which calls are allowed, and
//     ask a person.
//   - [github.com/dovetail-go/dovetail/transport/stdio]: serve standard streams, and
//     start servers as child processes.
//   - [github.com/dovetail-go/dovetail/transport/streamable]: serve and call over
//     streamable HTTP. [github.com/dovetail-go/dovetail/transport/sse] and
//     [github.com/dovetail-go/dovetail/transport/ws] are HTTP+SSE and WebSocket.
//   - [github.com/dovetail-go/dovetail/transport/oauth]: authorization for servers and
//     clients. [github.com/dovetail-go/dovetail/transport/oauth/proxy] is an authorization
//     server in front of an identity provider.
//   - [github.com/dovetail-go/dovetail/transport]: the interfaces of a transport, and
//     one in memory. [github.com/dovetail-go/dovetail/transport/transporttest] tests
//     your own.
//   - [github.com/dovetail-go/dovetail/mcp]: the types of the protocol.
//   - [github.com/dovetail-go/dovetail/schema]: JSON Schema from Go types, and
//     validation.
//   - [github.com/dovetail-go/dovetail/jsonrpc]: JSON-RPC 2.0 with any peer.
//
// # Layers
//
//	L7  bridge                      many servers as one;  /config  /pin  /search  /gateway  /toolserver
//	L6  approval                    a person decides;  /channel  /page
//	L5  server  client  policy
//	L4  internal/era                the differences between protocol versions
//	L3  transport                   /stdio  /streamable  /sse  /ws  /transporttest  /oauth
//	L2  mcp                         the types of the protocol
//	L1  jsonrpc  schema
//	L0  internal/...                mostly on the standard library only
//
// Imports point down only. The packages server and client do not import each other.
// Each layer can be used alone. A program that only uses stdio does not link net/http.
// Tests in internal/test/archtest check all of this.
//
// # Protocol versions
//
// The library supports 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.
// In 2026-07-28 every request describes its client; the older versions open a session
// with a handshake. The library is written for the former. One internal package turns
// requests of a session into such requests, so a tool is written once for all versions.
//
// # Bytes
//
// A message is scanned once, strictly. Arguments, schemas, content and unknown members
// that the library does not decode keep their bytes.
package dovetail

// Package dovetail is an embeddable library for servers and clients of the Model
// Context Protocol (https://modelcontextprotocol.io/specification).
//
// This package holds no code. Import what you need:
//
//   - [github.com/dovetail-go/dovetail/server]: offer tools, resources and prompts.
//   - [github.com/dovetail-go/dovetail/client]: use those of a server.
//   - [github.com/dovetail-go/dovetail/bridge]: offer what other servers have, one or
//     many; [github.com/dovetail-go/dovetail/bridge/gateway] and
//     [github.com/dovetail-go/dovetail/bridge/toolserver] are for programs that speak
//     no MCP.
//   - [github.com/dovetail-go/dovetail/policy] and
//     [github.com/dovetail-go/dovetail/approval]: say who may call what, and have a
//     person decide.
//   - [github.com/dovetail-go/dovetail/transport/stdio]: speak over standard streams,
//     at either end.
//   - [github.com/dovetail-go/dovetail/transport/streamable]: serve and call over
//     HTTP; [github.com/dovetail-go/dovetail/transport/sse] and
//     [github.com/dovetail-go/dovetail/transport/ws] do so in other ways.
//   - [github.com/dovetail-go/dovetail/transport/oauth]: authorization, at either end.
//   - [github.com/dovetail-go/dovetail/transport]: what a transport is, and one in
//     memory; [github.com/dovetail-go/dovetail/transport/transporttest] tests yours.
//   - [github.com/dovetail-go/dovetail/mcp]: the protocol's types, to read and write
//     its messages.
//   - [github.com/dovetail-go/dovetail/schema]: JSON Schema from Go types, and
//     validation against any.
//   - [github.com/dovetail-go/dovetail/jsonrpc]: JSON-RPC 2.0 with any peer.
//
// # Layers
//
//	L7  bridge                      many servers behind one face;  /config  /pin  /search  /gateway  /toolserver
//	L6  approval                    a person decides;  /channel  /page
//	L5  server  client  policy
//	L4  internal/era                the two eras of the protocol, and nothing else
//	L3  transport                   /stdio  /streamable  /sse  /ws  /transporttest  /oauth
//	L2  mcp                         the protocol's words
//	L1  jsonrpc  schema
//	L0  internal/...                the standard library, almost only
//
// Imports point down only, and server and client never meet. Each layer is of use alone: jsonrpc for any
// JSON-RPC peer, schema for any validation, mcp to read transcripts, transport
// and jsonrpc for a relay that knows no MCP. A program that speaks only over
// stdio does not link net/http. Tests in internal/archtest hold all this.
//
// # Versions of the protocol
//
// Dovetail speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.
// Since the last of these a request describes itself; before, a handshake opened
// a session. The library is written for the former, and one internal package
// turns sessions into such requests: a tool is written once and serves both.
//
// # Bytes
//
// A message is scanned once, strictly. What nobody here has to understand stays
// the bytes it was: arguments, schemas, content and unknown members keep their
// order, their numbers and their spelling.
package dovetail

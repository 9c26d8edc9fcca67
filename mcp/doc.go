// Package mcp has the types of the Model Context Protocol
// (https://modelcontextprotocol.io/specification): methods, params, results, capabilities, content
// and error codes of all versions from 2024-11-05 to 2026-07-28. It is used by servers, clients and
// bridges, and by programs that read or write messages of the protocol.
//
//	result := &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("5")}}
//	text, err := result.MarshalJSON() // {"content":[{"type":"text","text":"5"}]}
//
// # Concepts
//
// One type serves all versions. The comment of a field says which versions have it; fields that
// a version does not have are removed when a message is sent.
//
// A [Call] is one request with everything that its handlers need. A [Handler] answers a call, and a
// [Middleware] wraps a handler. A [Target] is the entry that a call is for: a tool, prompt, resource
// or resource template. A [Guard] decides which callers see an entry, and which calls may be made.
//
// A handler that needs an answer of the user returns an [InputRequired] error, and runs again with
// the answer.
//
// # Guarantees
//
//  1. Decoding is strict: names match exactly, and no name may be repeated. The error is a
//     *[DecodeError] with a JSON Pointer to the invalid value.
//  2. Unknown members and `_meta` survive decoding and encoding unchanged.
//  3. Values may be used concurrently as long as no goroutine changes them.
//  4. The package does no I/O and starts no goroutines.
//
// # Other packages
//
// Package jsonrpc has the messages, schema the JSON Schema of tools, and server and client the two
// ends of a connection.
package mcp

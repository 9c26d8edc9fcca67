// Package jsonrpc implements JSON-RPC 2.0 (https://www.jsonrpc.org/specification). It does
// not depend on MCP.
//
// A [Conn] connects two peers, and both may call the other:
//
//	stream := jsonrpc.NewLines(os.Stdin, os.Stdout, os.Stdin, 0)
//	conn := jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, nil)
//	go conn.Run(ctx)
//	resp, err := conn.Call(ctx, "greet", jsonrpc.Raw(`{"name":"Ada"}`))
//
// # Concepts
//
// [Decode] and [Append] convert between bytes and a [Message]: a [Request] or a [Response].
// A [Stream] carries messages; [NewLines] returns the stream of standard input and output. A
// [Handler] handles the calls and notifications of the peer, and gets the [Peer] that sent
// them.
//
// HTTP does not carry all messages in one stream. [Conn.Receive] passes a single message to a
// Conn without a stream, with the [Replier] for its reply. [Answer] runs a handler for a
// single call without a Conn.
//
// # Decoding
//
//  1. A message is scanned once. Keys match in exact case, duplicate members are refused,
//     and strings must be valid UTF-8. An escaped surrogate without its other half is U+FFFD in a
//     method, and stays unchanged in ids, params, results and error data.
//  2. An id keeps its JSON text: 9007199254740993 is answered as 9007199254740993.
//  3. Params, results and error data stay the bytes that were received.
//
// # Errors
//
//  1. An *[Error] is the error in the peer's response to a call.
//  2. A *[CallError] is a call without a valid response. Its [Delivery] says whether the peer
//     may have executed the call.
//  3. A *[DecodeError] is a malformed message.
//
// # Concurrency
//
//  1. Methods of a Conn may be called from any goroutine.
//  2. The goroutine that calls [Conn.Run] reads. Calls of the peer run on other goroutines, at most
//     [Options.MaxInFlight] at the same time. [Answer] runs a call on the caller's goroutine.
//  3. Notifications are handled one by one on the goroutine that reads, in the order of their
//     arrival and before any later message. [Conn.Receive] handles a notification on its
//     caller's goroutine.
//  4. A response is delivered after the notifications that the same goroutine received
//     before it.
//  5. [Conn.Run] and [Conn.Close] return when all goroutines of the connection have ended,
//     except for handlers that ignore the end of their context for longer than
//     [Options.Grace].
//
// # Related packages
//
// Package transport and the packages below it provide streams and channels. Package mcp has
// the methods and types of the Model Context Protocol.
package jsonrpc

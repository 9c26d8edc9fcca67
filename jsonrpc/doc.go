// Package jsonrpc speaks JSON-RPC 2.0 (https://www.jsonrpc.org/specification)
// and knows nothing of MCP.
//
// # Vocabulary
//
// [Decode] and [Append] turn bytes into messages and back. A [Conn] is a
// duplex peer over a [Stream]: it can [Conn.Call] the other side, [Conn.Notify]
// it, and hands what comes in to a [Handler].
//
// Where messages take more than one way, as over HTTP, a [Dispatcher] does what
// a Conn does without a stream: what comes in by a [Route] is answered by its
// [Outlet]. [Answer] is all that a call needs which has a way of its own.
//
// # Strictness
//
// A message is scanned once. Keys match in exact case, a member given twice is
// refused at every level that is read, strings must be valid UTF-8 without lone
// surrogates, and ids keep their own JSON text: 9007199254740993 comes back as
// 9007199254740993. Values that are not read here stay the bytes they were.
//
// # Whose fault
//
// An *[Error] means that the peer said so. What failed on this side is a
// *[CallError], which also says whether the request may have been executed.
//
// # Concurrency
//
//  1. All methods of Conn, Dispatcher and Route may be called from any goroutine.
//  2. Calls run on goroutines of their own, at most [Options.MaxInFlight] at once.
//     Answer runs one on its caller's.
//  3. Notifications are handed over on the goroutine that receives them: one by
//     one, in the order they came, before any later message is looked at. A
//     handler must not block on them. A Conn has one such goroutine; a
//     Dispatcher has as many as call [Route.Receive] and [Route.Dispatch].
//  4. A response is delivered after every notification that the same goroutine
//     received before it.
//  5. [Conn.Run] and [Dispatcher.Close] return when nothing that they started
//     runs any more, save handlers that ignore the end of their context for
//     longer than [Options.Grace].
package jsonrpc

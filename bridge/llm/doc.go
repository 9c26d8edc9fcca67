// Package llm encodes the tools of MCP servers for the API of a language model. It encodes function definitions for the
// request, and text or JSON for the replies to the model's calls.
//
//	tools, err := b.Tools(ctx) // b is a *bridge.Bridge
//	...
//	request.Tools = llm.OpenAITools(tools)
//	...
//	call := llm.FirstMatch(ownTools, llm.NewHandler(b))
//	text, err := call(ctx, function.Name, function.Arguments)
//
// # Definitions
//
// [OpenAITools] and [AnthropicTools] encode tools. It takes the tools of a
// [bridge.Bridge], of a client session, or any others.
//
// # Results
//
// [Text] turns a result into one string for a model, [Value] into one JSON value for a
// program.
//
// # Calls
//
// A [Handler] calls a tool by name and returns text. [NewHandler] makes one of a bridge, and
// [FirstMatch] combines several.
//
// # Guarantees
//
//  1. All functions of this package, and the handlers that they return, may be called
//     concurrently. The package starts no goroutines.
//  2. Structured content keeps the bytes of the server, and so do input schemas that all APIs accept.
//  3. FirstMatch tries the next handler only after [bridge.ErrUnknownTool]. It never repeats
//     a call that has reached a tool.
//
// Package bridge connects to the servers; see [bridge.Bridge.Tools] and
// [bridge.Bridge.CallTool].
package llm

// Package llm connects the tools of MCP servers with the API of a language model. It encodes the definitions of tools for
// a request, makes the calls in the model's answer, and encodes the replies for the next request.
//
//	tools := llm.SessionTools(session) // or a *bridge.Bridge
//	list, err := tools.Tools(ctx)
//	...
//	request.Tools = llm.AnthropicTools(list)
//	...
//	replies := llm.Run(ctx, tools, calls)
//	content := llm.AnthropicReplies(replies, nil)
//
// The guide docs/agents.md has a complete loop for each API.
//
// # Definitions
//
// [OpenAITools], [AnthropicTools] and [GeminiTools] encode definitions. Each returns a slice, so that a program can add
// tools of its own. [Parameters] returns only the schema, for SDKs and frameworks with types of their own.
//
// # Calls and replies
//
// [Run] makes calls, and answers each, also if there is no such tool or its server has failed. [OpenAIReplies],
// [AnthropicReplies] and [GeminiReplies] encode the answers: texts, images and documents as blocks of the API, and other
// blocks as text. [Limits] bounds them.
//
// # Questions
//
// Questions of a server during a call go to the handlers of the session, such as Elicit of [client.Options]. A call of
// [bridge.Bridge.CallTool] cannot ask. To answer the questions of all servers of a bridge, mount it on a server and
// connect to that; see the example of [SessionTools].
//
// # Text and values
//
// A [Handler] calls a tool by name and returns text. [NewHandler] makes one of tools, and
// [FirstMatch] combines several, also with handlers that answer a text for an unknown tool ([UnknownFromText]).
// [NewProvider] selects tools and limits the time of calls. [Text] turns a result into one string for a model, [Value]
// into one JSON value for a program.
//
// # Guarantees
//
//  1. All functions of this package, and the handlers that they return, may be called
//     concurrently. The package starts no goroutines.
//  2. Structured content keeps the bytes of the server in [Value], and so do input schemas that all APIs accept.
//  3. FirstMatch tries the next handler only after [bridge.ErrUnknownTool]. It never repeats
//     a call that has reached a tool.
//
// Package bridge connects to the servers; see [bridge.Bridge.Tools] and
// [bridge.Bridge.CallTool].
//
// [client.Options]: https://pkg.go.dev/github.com/dovetail-go/dovetail/client#Options
package llm

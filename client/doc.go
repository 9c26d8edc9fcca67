// Package client talks to MCP servers.
//
// [Connect] opens a [Session] over any transport and finds out by itself which
// version the server speaks; the session's methods are the same for all of them.
//
//	session, err := client.Connect(ctx, stdio.Command("some-server", nil, nil), nil)
//	...
//	defer session.Close()
//	sum, err := client.CallAs[int](ctx, session, "add", map[string]any{"a": 2, "b": 3})
//
// # Errors
//
// What the server answered with an error is a *jsonrpc.Error. A tool that reports
// a failure to the model is no error but a result with IsError, save for [CallAs],
// where it is a *[ToolError]. What failed on this side or on the way is a
// *jsonrpc.CallError, which says whether the request may have been executed: also
// when the answer made no sense, or a handler failed over a question.
//
// # Timeouts
//
// A call ends at the deadline of its context. Without one it ends after the timeout of the
// transport, a minute by default: without progress, if [CallOptions] ask for it. Time in
// which handlers answer a question of the server does not count.
//
// # Concurrency
//
//  1. All methods of Session may be called from any goroutine.
//  2. Handlers in [Options] run on goroutines of their own and may call the
//     session; those for changes and log messages run one at a time, in order.
//  3. A progress callback runs on the goroutine that makes the call, in order,
//     and has returned before the call returns.
package client

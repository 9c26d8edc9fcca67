// Package client talks to MCP servers.
//
// [Connect] opens a [Session] over any transport. It finds the newest version of the protocol that
// both ends support; the methods of a session are the same for all versions.
//
//	session, err := client.Connect(ctx, stdio.Command("some-server", nil, nil), nil)
//	if err != nil {
//		return err
//	}
//	defer session.Close()
//	sum, err := client.CallAs[int](ctx, session, "add", map[string]any{"a": 2, "b": 3}, nil)
//
// # Calls
//
// [Session.Tools], [Session.Resources], [Session.Templates] and [Session.Prompts] list what a server
// offers. [Session.CallTool], [CallAs], [Session.Stream], [Session.ReadResource] and
// [Session.GetPrompt] use it. [Session.Subscribe] reports changes. [Session.Forward] forwards calls
// of other clients.
//
// A server may continue a call of a tool as a task in the background (SEP-2663). The call then returns
// when the task has ended, even if the connection is renewed or the server restarts. [CallOptions].OnTask
// gets the id of the task, and [Session.Task] waits for it in another process. [Options].NoTasks turns
// tasks off.
//
// Handlers in [Options] answer questions of the server. [Options].Middleware sees every call.
//
// # Errors
//
//  1. An error that the server returned is a *[jsonrpc.Error].
//  2. A failure that a tool reports to the model is a result with IsError, and for [CallAs] and
//     [Session.Stream] a *[ToolError].
//  3. A failure of the client or of the connection, and an invalid answer, is a
//     *[jsonrpc.CallError], which says whether the request may have been executed.
//  4. A result that does not fit the type of [CallAs] is a *[ResultError]. The tool has run.
//
// # Timeouts
//
// A call ends at the deadline of its context. Without a deadline it ends after
// [Options].CallTimeout, one minute by default; CallOptions.Timeout sets it for one call. If
// [CallOptions] ask for progress, each progress notification restarts the timeout, and so does each
// chunk of [Session.Stream]. The timeout bounds each request about a task, and not the task, which only
// the deadline of the context does. Time in which handlers answer questions of the server does not count.
//
// # Concurrency
//
//  1. All methods of Session may be called concurrently.
//  2. Handlers in [Options] run on goroutines of their own and may use the session. OnChange and
//     OnLog run one at a time, in order.
//  3. A progress callback runs on the goroutine that makes the call, in order, and has returned
//     before the call returns.
//
// # Other packages
//
// Packages transport/stdio, transport/streamable, transport/sse and transport/ws have dialers.
// Package transport/oauth authorizes a client. Package bridge offers the entries of sessions as a
// server.
package client

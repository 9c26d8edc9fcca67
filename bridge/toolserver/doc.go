// Package toolserver runs tools for programs that name a server and a tool, such as code that a model writes in a
// sandbox. The program may say how the server is launched.
//
//	tools, err := toolserver.Start("localhost:8900", &toolserver.Options{Launch: toolserver.LaunchAny, Approver: person})
//	defer tools.Close()
//
//	runner, err := toolserver.NewRunner(tools.URL(), "calc", &toolserver.RunnerOptions{Params: params, Token: token})
//	sum, err := toolserver.RunAs[int](ctx, runner, "add", map[string]int{"a": 1, "b": 2})
//
// A [Server] calls the tools of the operator's server, and of servers that callers launch. [Start] serves HTTP; [New]
// returns a handler. A
// [Runner] is its client; it also works with the ToolServer of ipybox. Package bridge/gateway
// has handlers for programs that launch no servers.
//
// # Guarantees
//
//  1. Every call passes through the middleware and the guards of the server that has the tool.
//     [Options] has those for servers that callers launch.
//  2. No server is started for a call that a guard refuses. Without [Options].VerifyFirst no
//     server is started for a call that a person has not approved.
//  3. By default callers cannot launch servers. Each principal has its own servers, and the
//     number of servers is limited.
//  4. [Runner.Approve] executes nothing.
//  5. All functions and methods may be called concurrently. Each launched server has a
//     goroutine, for which [Server.Close] waits.
package toolserver

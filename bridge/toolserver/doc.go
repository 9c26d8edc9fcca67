// Package toolserver runs tools for programs that name a server and a tool, and may say how
// the server is started, such as code that a model writes in a sandbox.
//
//	tools, err := toolserver.New(&toolserver.Options{Server: s, States: servers.States, Guards: guards})
//	http.ListenAndServe("127.0.0.1:8900", tools)
//
//	runner, err := toolserver.NewRunner("http://127.0.0.1:8900", "calc", &toolserver.RunnerOptions{Token: token})
//	sum, err := toolserver.RunAs[int](ctx, runner, "add", map[string]int{"a": 1, "b": 2})
//
// A [Server] calls the tools of the operator's server, and of servers that callers launch. A
// [Runner] is its client, and works with the ToolServer of ipybox too.
//
// # Guarantees
//
//  1. Every call passes the middleware and the guards of the server that has the tool. Those
//     for servers that callers launch are in [Options].
//  2. No server is started for a call that a guard refuses, or, without
//     [Options].VerifyFirst, for one that a person has not approved.
//  3. By default callers launch nothing. Each principal has servers of its own, and the number
//     of servers is bounded.
//  4. [Runner.Approve] executes nothing.
//  5. Everything may be used concurrently. Each launched server has a goroutine, for which
//     [Server.Close] waits.
package toolserver

// Package stdio implements the stdio transport of MCP: one message is one line of UTF-8.
//
// A server program calls [Run]. A client uses [Command], which runs a server as a child
// process.
//
//	if err := stdio.Run(server, nil); err != nil {
//		log.Fatal(err)
//	}
//
// # Concepts
//
// [Serve] serves one client on standard input and output until a context ends; [Run] does so
// until the process is interrupted. [Command] returns a [transport.Dialer], each of whose
// connections has a process of its own.
//
// # Guarantees
//
//  1. A dialer and its connections may be used concurrently.
//  2. Messages arrive in the order in which they were written.
//  3. The length of messages is bounded, as is the waiting time for a child that ends.
//  4. Calls that fail because the child has exited contain an *[ExitError].
//
// The specification is MCP 2026-07-28, basic/transports; every earlier version has the same
// transport.
package stdio

// Package server makes MCP servers out of Go functions.
//
// A [Server] offers tools, resources, prompts and completions. Its author writes
// functions with typed arguments and results; schemas are reflected from the
// types, arguments are validated and decoded before the function runs, results
// are encoded after. The same server speaks every version of the protocol over
// every transport, to many clients at once.
//
//	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
//	server.AddTool(s, server.Tool{Name: "add"}, func(ctx context.Context, r *server.Request, in AddIn) (int, error) {
//		return in.A + in.B, nil
//	})
//	log.Fatal(stdio.Serve(ctx, s, nil))
//
// # Registration
//
// AddTool, AddResource and the like are for start-up code: they panic with the
// place and the reason when something cannot be registered. NewTool, NewResource
// and the like return an error instead; [Server.Replace] takes what they made, all
// or nothing, at any time, and tells clients once.
//
// # Errors
//
// An error that a tool returns is a result the model sees. A *jsonrpc.Error, also
// wrapped, is a protocol error. A panic is logged with its stack under a reference,
// and the client sees only the reference.
//
// # Asking
//
// [Elicit], [Sample] and [Roots] ask the client in the middle of a call. They
// return an error until the answer is there; return it, and the function runs again
// with the answer. Whatever stands before a question runs again too: [Once] keeps
// its result. Questions whose errors are put together with errors.Join are asked in
// one round.
//
// # Concurrency
//
//  1. All methods of Server and functions of this package may be called from any
//     goroutine, while the server serves.
//  2. Functions run concurrently, each on the goroutine of its call.
//  3. A call sees the registry as it was when the call came.
package server

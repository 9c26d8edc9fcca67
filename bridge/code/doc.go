// Package code offers a model two tools in place of many: one finds tools, the other runs a program that calls them. The model
// writes one short script in place of many calls, and only what the script returns is in its context.
//
//	engine, err := code.NewEngine(&code.EngineOptions{CacheDir: dir})
//	...
//	scripts, err := code.New(servers, &code.Options{Engine: engine, Guards: guards})
//	...
//	err = s.Mount(scripts, nil)
//
// The source is a bridge or any other [server.Provider]. With bridge/pin, wrap it first, so that only accepted tools are in
// scripts. With few tools, or tasks of one call, scripts cost more than they save: the page docs/scripts.md has measurements.
//
// # Scripts
//
// [SearchTool] takes a query, and returns declarations of the best tools in TypeScript. [ScriptTool] takes the body of an async
// function in JavaScript (ECMAScript 2023). Each server is a global object, and each tool a function in it, which takes one
// object and returns a promise:
//
//	const f = await files.read_text_file({ path: "a.txt" })
//
// Tools without a server are in the object tools. The value is the structured content of the result or, without it, its text.
// A result with content that is not text is a list instead, of its texts and other content. Images, sounds and other binary
// content are objects with a handle in it: a script passes them on by returning them. Other results are in the memory of the
// script, and what a result has beside structured content is left out. A call that
// fails throws a ToolError; a call that may have been executed although there is no answer throws an UnknownOutcome, which is
// a ToolError too. Numbers are those of JavaScript: integers above 2^53 lose digits.
//
// The result of the script is JSON with its value, what it wrote with console.log, its calls, and notes about promises that it
// did not await. There are no modules, files, network or timers, nothing makes code from text, and the time is that of the last
// result.
//
// # Calls
//
// A call of a script is a call of its own: guards, middleware, timeouts, progress, log messages and cancellation are those of a
// direct call. Guards and middleware belong in [Options]; those of the server that the provider is mounted on see the two tools
// only. ScriptTool requires the scopes of all tools. The progress of all calls together is the progress of the script.
//
// # Questions
//
// Tools and approvers in scripts may ask the user, and calls may continue as tasks, also several at the same time. A script whose
// calls all wait for answers ends, and runs again from its beginning with the answers: it then gets the same results in the same
// order, the same time and the same random numbers, so that it does the same. What it has done is kept by the client,
// encrypted, or in [Options].Store. A call that has begun is not made twice, except of tools that say, on a server that is
// trusted, that they only read or are idempotent.
//
// # Containment
//
// Scripts run in QuickJS-NG, compiled to WebAssembly, on wazero: a fault of the interpreter stops one script. [Limits] bound what
// a script uses. A script that reaches a limit is stopped, and others go on. This is a boundary of software in one process: for
// scripts of attackers, run the program as a user of its own.
//
// # Guarantees
//
//  1. Providers and engines may be used concurrently. A call returns after all its goroutines have ended.
//  2. A script has no other way to the outside than the tools that its caller may call.
//  3. Arguments are the JSON that the script makes; results reach it unchanged. Everything that a script leaves behind is
//     bounded by [Limits], and lapses an hour after its last answer.
package code

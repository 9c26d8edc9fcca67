// Package server makes MCP servers out of Go functions.
//
// A [Server] offers tools, resources, prompts and completions. Its author writes
// functions with typed arguments and results; schemas are reflected from the
// types, arguments are validated and decoded before the function runs, and results
// are encoded after it. The same server speaks every version of the protocol over
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
// or nothing, at any time, and notifies clients once for each kind of list.
//
// # Composition
//
// An [Entry] is one tool, prompt, resource or resource template. Its [mcp.Target] says what
// it is. Its [mcp.Handler] answers its calls. NewTool and the like return entries.
//
// A [Catalog] is an immutable list of entries with an index of their names. [NewCatalog]
// makes one of entries. The functions of entries that are registered with no server have no
// dependencies: [Value] panics there. [Catalog.Map] returns a catalog of what a function
// makes of each entry: the entry itself, a changed copy, or nil to drop it. [Merge] returns one
// catalog of several parts. Of two entries with one kind and name, Merge offers one: that of
// the part that had the name in the previous result, otherwise that of the first part. The
// other is one of [Catalog.Collisions]. In this code, tool returns a new entry with that
// name:
//
//	kitchen := server.NewCatalog([]*server.Entry{tool("bake"), tool("debug")}, nil)
//	counter := server.NewCatalog([]*server.Entry{tool("order")}, nil)
//
//	kitchen = kitchen.Map(func(e *server.Entry) *server.Entry {
//		if e.Name == "debug" {
//			return nil // drops it
//		}
//		changed := *e
//		changed.Metadata = map[string]any{"staff": true}
//		return &changed
//	})
//	bakery := server.Merge(nil,
//		server.Part{Owner: "kitchen", Catalog: kitchen},
//		server.Part{Owner: "counter", Catalog: counter})
//
// A [Provider] has a current catalog and reports its changes. [Server.Provider] returns a
// server as a provider. A provider returns the same catalog until something changes: one
// that maps the catalog of another provider keeps the result with [Catalog.Memo], and one
// that merges gives Merge the previous result.
//
//	type fixed struct{ catalog *server.Catalog }
//
//	func (f fixed) Catalog() *server.Catalog { return f.catalog }
//
//	func (f fixed) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
//		ready()
//		<-ctx.Done()
//		return nil
//	}
//
// [Server.Mount] adds the entries of a provider to those of a server. The prefix of a mount
// is added to the names of tools and prompts, and not to URIs. The server runs the provider
// from its start to its shutdown. Clients are notified of the provider's changes.
//
// An [mcp.Guard] decides which callers see an entry, and which calls may be made. Options, a
// mount and an entry can each have guards. An entry is listed for a caller if none of its
// guards hides it. On a call, the guards of the server decide first, then those of the mount,
// then those that the entry has at the provider. A guard without Check decides about calls by
// Visible; the error of a call that it refuses is that for an unknown name.
//
//	staff := mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
//		return target.Metadata["staff"] != true || caller.Principal == "baker"
//	}}
//	err := s.Mount(fixed{bakery}, &server.MountOptions{Prefix: "bakery_", Guards: []mcp.Guard{staff}})
//
// The baker sees the tools bakery_bake and bakery_order, and a guest only bakery_order. The
// package example "Composition" (Example_composition) is the whole program, with a client
// that lists and calls.
//
// # Errors
//
// An error that the function of a tool returns is a result the model sees; that of any
// other function is a protocol error with its text. A *[jsonrpc.Error], also wrapped, is
// sent as it is. Any other error of a guard's Check is logged, and the client gets the name
// of the guard. An error of middleware is logged under a reference, and the client gets only
// the reference. A panic of a function or of middleware is handled in the same way, and is
// logged with its stack.
//
// # Asking
//
// [Elicit], [Sample] and [Roots] ask the client in the middle of a call. They
// return an error until the answer is there; return it, and the function runs again
// with the answer. Code before a question runs again too; [Once] keeps its result.
// Questions whose errors are put together with errors.Join are asked in one round.
//
// # Concurrency
//
//  1. All methods of Server and functions of this package may be called from any
//     goroutine, while the server serves.
//  2. Functions run concurrently, each on the goroutine of its call.
//  3. A call is resolved to an entry when it comes. Later changes of the catalog do not
//     change that entry; [mcp.Call.Recheck] reports whether it is still offered unchanged.
package server

// Package server makes MCP servers out of Go functions.
//
// A [Server] offers tools, resources, prompts, completions, skills and events. Functions have typed arguments
// and results: the schemas are reflected from the types, arguments are validated and decoded
// before the function runs, and results are encoded after it. One server serves every version
// of the protocol over every transport to many clients.
//
//	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
//	server.AddTool(s, server.Tool{Name: "add"}, func(ctx context.Context, r *server.Request, in AddIn) (int, error) {
//		return in.A + in.B, nil
//	})
//	if err := stdio.Run(s, nil); err != nil {
//		log.Fatal(err)
//	}
//
// # Registration
//
// [AddTool], [AddResource], [AddTemplate], [AddPrompt] and [AddCompletion] register functions,
// [AddSkill] registers a skill, and [AddService] registers the methods of a struct. They are for start-up code: they panic with the
// file, the line and the reason if registration fails. [NewTool] and similar functions return an
// error instead. [Server.Replace] takes the entries that they return, all or none, at any time.
//
// [AddEvent] registers an event, and returns the topic that publishes its occurrences to the clients that
// have subscribed, at all replicas.
//
// # Composition
//
// An [Entry] is one tool, prompt, resource, resource template, skill or event. Its [mcp.Target] describes it,
// and its [mcp.Handler] answers its calls. NewTool and similar functions return entries.
//
// A [Catalog] is an immutable list of entries with an index of their names, made by
// [NewCatalog]. The functions of its entries belong to no server and have no dependencies:
// [Value] panics there. [Catalog.Map] returns a catalog in which each entry is replaced by the
// result of a function: the entry itself, a changed copy, or nil to drop it. [Merge] returns one
// catalog of several parts. Of two entries with the same kind and name, Merge offers one: the entry
// of the part that had the name in the previous result, otherwise the entry of the first part. The
// other is reported by [Catalog.Collisions]. In this code, tool returns a new entry:
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
// server as a provider. A provider returns the same catalog until an entry changes. A provider
// that maps another catalog keeps the result with [Catalog.Memo]. A provider that merges catalogs
// passes the previous result to Merge.
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
// [Server.Mount] adds the entries of a provider to a server. The prefix of a mount
// is added to the names of tools and prompts, and not to URIs. The server runs the provider
// from its start to its shutdown. Clients are notified of the provider's changes.
//
// An [mcp.Guard] decides which callers see an entry, and which calls may be made. Options, a
// mount and an entry can each have guards. An entry is listed for a caller if none of its
// guards hides it. On a call, the guards of the server decide first, then the guards of the mount,
// then the guards that the entry has at the provider. A guard without Check decides about calls by
// Visible. A call that it refuses gets the error for an unknown name.
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
// Several tools, prompts, resources or templates may have one name if each has a Visible. A caller gets
// the one that it sees; see [NewCatalog]. A caller that sees several gets none, and the log says so.
// [Server.ListChanged] announces that guards decide otherwise now.
//
// # Errors
//
//  1. An error that a tool's function returns is a result that the model sees. An error of any
//     other function is a protocol error with its text.
//  2. A *[jsonrpc.Error], wrapped or not, is sent as it is.
//  3. An error of a guard's Check is logged. The client gets the name of the guard.
//  4. An error of middleware, and any panic, is logged with a reference. The client gets the
//     reference only.
//  5. Middleware gets errors before they are converted: a [FunctionError] for the first kind, and a
//     [RefusedError] for the third.
//
// # Questions
//
// [Elicit], [Sample] and [Roots] ask the client during a call. Until there is an answer they
// return an error. The function returns that error, and runs again with the answer.
//
//  1. Code before a question runs again. [Once] keeps its result.
//  2. Questions whose errors are combined with errors.Join are asked together.
//  3. A timeout does not count the time that a person takes to answer.
//  4. In a tool with [Tool].Blocking they wait for the answer instead, and the function runs once.
//
// # Concurrency
//
//  1. All functions and methods of this package may be called concurrently, also while the
//     server serves, unless their documentation says otherwise.
//  2. Functions run concurrently, each on the goroutine of its call, and those of blocking tools on one of their own.
//  3. A call is resolved to an entry when it arrives. Later changes of the catalog do not
//     change that entry; [mcp.Call.Recheck] reports whether it is still offered unchanged.
//
// # Other packages
//
// Package transport/stdio and its neighbours serve a server. Packages server/resources,
// server/openapi, server/memory, server/workspace and server/shell have ready-made entries.
// Package server/servertest tests a server. Package bridge offers the entries of other servers.
package server

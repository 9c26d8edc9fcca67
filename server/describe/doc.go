// Package describe writes the documents that tell others about a server, all from one value: the
// server card and the AI catalog of its domain, the server.json of the MCP Registry, and an .mcpb
// bundle for desktop applications. It also reads the cards of other servers.
//
//	d := describe.Of(s) // name, version, tools, …
//	d.Name = "com.example/calc"
//	d.Remotes = []describe.Remote{describe.NewRemote("https://example.com/mcp")}
//	cards, err := describe.Handler(d)
//	if err != nil {
//		log.Fatal(err)
//	}
//	log.Fatal(streamable.Run(":8080", s, &streamable.ServeOptions{Other: cards}))
//
// # Concepts
//
// A [Server] is the description. [Of] fills in what a *server.Server knows: name, title,
// description, version, website, icons, tools and prompts. The program adds the rest.
//
// A server card (SEP-2127) says how to connect to a server over HTTP. An AI catalog, at
// /.well-known/ai-catalog.json, lists the cards of a domain. [Handler] serves both, and [Discover] finds the
// servers of a domain.
//
// [Server.Registry] returns a server.json, which also says how to install the server: with
// [Server.Packages].
//
// [Server.WriteBundle] writes a zip archive with a manifest, one program for each operating system,
// and an icon.
//
// # Guarantees
//
//  1. Nothing is written unless the whole description is valid. The error joins one *[FieldError]
//     for each fault.
//  2. The same description gives the same bytes, with the same version of Go.
//  3. Tools and prompts that are hidden from some callers are in no document.
//  4. A value that is marked as secret is refused, so that it cannot be published.
//  5. What is read is bounded: a catalog by 1 MiB and a card by 64 KiB.
//  6. All functions may be called concurrently. A Server must not be changed while a function uses it.
//
// # Trust
//
// A card is not verified. Do not base decisions about access on it, and prefer what the connected
// server says. Package bridge/pin notices when a server changes.
package describe

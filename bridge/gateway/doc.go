// Package gateway lets programs call MCP tools that do not speak MCP: over plain HTTP, with
// the same policy, approvals and audit as whoever does speak it.
//
//	tools, err := gateway.NewDirectory(servers, &gateway.DirectoryOptions{Launch: launch})
//	audit := &gateway.Audit{Directory: tools}
//	enforcer := &gateway.Enforcer{Policy: rules, Locate: tools.Locate, Decided: audit.Decided}
//	around := []mcp.Middleware{audit.Intercept, enforcer.Intercept}
//
//	g := gateway.New(tools, &gateway.Options{Around: around})
//	mux.Handle("/api/v1/mcp/proxy/", http.StripPrefix("/api/v1/mcp/proxy", g.Proxy()))
//	mux.Handle("/api/v1/", http.StripPrefix("/api/v1", g.REST(nil)))
//
// A [Directory] knows whose each tool of a provider is, such as a bridge. A [Gateway] has
// two faces over it: [Gateway.Proxy] for programs in sandboxes, which call servers by their
// names, and [Gateway.REST] with an OpenAPI document of the tools. [ToolServer] is a third
// one that starts servers on demand, and [Runner] its client.
//
// # One choke point
//
// Whatever face a call comes by, it is an mcp.Call that passes the interceptors of
// [Options].Around, and so is a list of tools. Around the MCP face of the same provider stand
// the same interceptors:
//
//	server.Options{Middleware: around}
//
// Arguments pass byte by byte as they came, and so do results, but for what a face by its
// nature reduces.
//
// # Access
//
// Each face is behind an [Access]: without a token nobody gets in, nor by the name of a
// strange host, nor from the page of a strange origin. By default the token is random. Which
// address is listened on is the program's business: let it be a loopback one.
//
// # Ends
//
// A call ends with the HTTP request that it came by: when a client has gone, what it has
// asked for is called off, and so is the question to a person whether it may run. Beyond
// that each call has a bound of its own, in which waiting for a person does not count.
//
// Everything may be used concurrently. This package starts no goroutines but those that its
// [ToolServer] says it does.
package gateway

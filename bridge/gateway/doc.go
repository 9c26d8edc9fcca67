// Package gateway lets programs that do not speak MCP call the tools of a server: over plain
// HTTP, with the same policy, approvals and audit as clients of MCP.
//
//	audit := &gateway.Audit{}
//	s := server.New(info, &server.Options{
//		Middleware: []mcp.Middleware{audit.Intercept},
//		Guards:     []mcp.Guard{policy.Guard(rules, &policy.GuardOptions{Decided: audit.Decided})},
//	})
//	s.Mount(servers, nil) // a bridge
//
//	g := gateway.New(s, &gateway.Options{States: servers.States})
//	mux.Handle("/mcp", g.Access().Handler(streamable.Handler(s, nil)))
//	mux.Handle("/api/v1/mcp/proxy/", http.StripPrefix("/api/v1/mcp/proxy", g.Proxy()))
//	mux.Handle("/api/v1/", http.StripPrefix("/api/v1", g.REST(nil)))
//
// [Gateway.Proxy] is for programs in sandboxes, which call tools by the names of their servers.
// [Gateway.REST] has an OpenAPI document of the tools. [Pseudo] makes functions of the program
// callable as the tools of a server. Package bridge/toolserver starts servers on demand.
//
// # Guarantees
//
//  1. A call or a list passes the middleware and the guards of the server, by whichever
//     handler it comes. A tool that the caller may not see is unknown to it, and in no list.
//  2. Arguments pass byte by byte, and so do results, where a handler does not reduce them.
//  3. Each handler is behind an [Access]: requests need a token, an allowed host name, and an
//     allowed origin if they have one. By default the token is random. The program chooses the
//     address to listen on; use a loopback address.
//  4. A call ends with its HTTP request: when the client closes the connection, the call is
//     cancelled, and so is the question to a person whether it may run. Each call also has a
//     timeout, in which waiting for a person does not count.
//  5. Everything may be used concurrently. This package starts no goroutines.
package gateway

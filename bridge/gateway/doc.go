// Package gateway lets programs that do not speak MCP call the tools of a server over plain HTTP. The calls get the
// same policy, approvals and audit as calls of MCP clients.
//
//	audit := &gateway.Audit{}
//	s := server.New(info, &server.Options{
//		Middleware: []mcp.Middleware{audit.Middleware},
//		Guards:     []mcp.Guard{policy.Guard(rules, &policy.GuardOptions{OnDecision: audit.OnDecision})},
//	})
//	s.Mount(servers, nil) // a bridge
//
//	g := gateway.New(s, &gateway.Options{States: servers.States})
//	mux.Handle("/mcp", g.Authenticator().Handler(streamable.Handler(s, nil)))
//	mux.Handle("/api/v1/mcp/proxy/", http.StripPrefix("/api/v1/mcp/proxy", g.Proxy()))
//	mux.Handle("/api/v1/", http.StripPrefix("/api/v1", g.REST(nil)))
//
// [Gateway.Proxy] is for generated code in sandboxes, which calls tools by server and name;
// dovetail gen -lang python writes such code.
// [Gateway.REST] calls tools by their exposed names, and has an OpenAPI document. [Pseudo]
// makes functions of the program callable as tools. [Audit] logs calls.
// Package bridge/toolserver starts servers on demand.
//
// # Guarantees
//
//  1. Every call and every list passes through the middleware and the guards of the server,
//     with either handler. A tool that the caller may not see is unknown to it, and is not
//     listed.
//  2. Arguments are passed on byte by byte, and so are results that a handler does not reduce.
//  3. Each handler has an [Authenticator]: requests need a token, an allowed host name, and an
//     allowed origin if they have one. By default the token is random. The program chooses the
//     address to listen on; use a loopback address.
//  4. A call ends with its HTTP request. If the client closes the connection, the call and its
//     request for approval are canceled. Each call has a timeout, which does not include the
//     time for approval.
//  5. All methods may be called concurrently. This package starts no goroutines, except for the
//     timer of a call that waits (?wait=1), which ends with the call.
package gateway

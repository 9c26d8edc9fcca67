// Package streamable implements the Streamable HTTP transport of MCP: both ends, all
// versions.
//
// Use [Serve] or [Run] for a program that is only an MCP server, [Handler] to mount a server
// in an http.Server of your own, [Select] for a server for each tenant, and [Dial] for a client.
//
//	if err := streamable.Run("127.0.0.1:8080", server, nil); err != nil {
//		log.Fatal(err)
//	}
//
// # Concepts
//
// An endpoint serves every version at one URL. A request that declares its version
// (2026-07-28) is answered on its own, without a session. Any other request belongs to a
// session (2025-03-26 to 2025-11-25), which begins with initialize. The client detects what
// the server supports, including HTTP+SSE of 2024-11-05.
//
// In a session, a client that loses a connection resumes its stream. Sessions and the recent
// events of their streams are in the server's store. Replicas with one store serve each other's
// sessions.
//
// # Guarantees
//
//  1. An endpoint, a dialer and its connections may be used concurrently.
//  2. Messages of one stream arrive in order. Different calls have different streams.
//  3. Bodies, sessions, subscriptions, stored events and write times are bounded by [Options].
//  4. A session can be used only by the principal that opened it.
//  5. A failed call is a *[jsonrpc.CallError] that says whether the call may have been
//     executed. It wraps an *httptransport.StatusError if the server answered with an HTTP
//     error.
//
// # Serving behind a reverse proxy
//
// An endpoint on a loopback address answers only requests with a loopback host name, as
// protection against DNS rebinding. Behind a proxy on the same machine, list the public host,
// and the origins of web pages that may call:
//
//	streamable.Handler(srv, &streamable.Options{
//		Hosts:   []string{"mcp.example.com"},
//		Origins: []string{"https://app.example.com"},
//	})
//
// The proxy must forward Host and Origin unchanged and must not buffer responses (the endpoint
// sends X-Accel-Buffering for nginx). Its timeout for silent responses must be longer than
// [Options.KeepAlive]. With several replicas, set server.Options.Store or route by
// Mcp-Session-Id.
//
// # The http.Server
//
// Make an http.Server around an endpoint with httptransport.NewServer, which limits headers. It
// must not have a WriteTimeout, since streams last; the endpoint bounds each write and each body
// itself. To stop, call the MCP server's Shutdown, then [Endpoint.Close], then
// http.Server.Shutdown. [Serve] does all of this.
package streamable

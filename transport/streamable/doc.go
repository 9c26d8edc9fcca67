// Package streamable carries the protocol over HTTP: both ends of the Streamable
// HTTP transport.
//
// [Handler] makes an http.Handler of a server. It serves every version at one URL
// at once: a request that says which version it speaks (2026-07-28) is answered on
// its own, without a session; any other belongs to a session (2025-03-26 to
// 2025-11-25), which begins with initialize. [Dial] is the client's end; it finds out
// what the server speaks, HTTP+SSE of 2024-11-05 included.
//
// # Serving behind a reverse proxy
//
// A handler on a loopback address answers only requests for loopback hosts, so that
// no web page can reach it under a name of its own (DNS rebinding). Behind a proxy on
// the same machine, name the public host, and the origins of web pages that may
// call, instead of turning checks off:
//
//	streamable.Handler(srv, &streamable.Options{
//		Hosts:   []string{"mcp.example.com"},
//		Origins: []string{"https://app.example.com"},
//	})
//
// The proxy must pass Host and Origin on as they came, must not buffer responses
// (the handler says so to nginx by X-Accel-Buffering), and must let a response be
// silent for longer than [Options.KeepAlive]. With several replicas, set
// [Options.SessionKeys] or route by Mcp-Session-Id.
//
// # The http.Server
//
// Streams last, so an http.Server around a handler must have no WriteTimeout: the
// handler bounds each write and each body itself. ReadHeaderTimeout (5 s),
// IdleTimeout (120 s) and MaxHeaderBytes (64 KiB) are the server's to set. To stop,
// call the MCP server's Shutdown, then [Endpoint.Close], then http.Server.Shutdown.
package streamable

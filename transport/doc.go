// Package transport defines what a transport of MCP is: a [Dialer] at the client's end, a
// [Binder] at the server's, and a [Link] between them. It moves JSON-RPC messages and does
// not depend on their content.
//
//	conn, err := transport.Pipe(server).Dial(ctx, handler)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//	resp, err := conn.Call(ctx, "greet", jsonrpc.Raw(`{"name":"Ada"}`))
//
// # Concepts
//
// [Pipe] connects a client and a server in one process. The packages stdio, streamable, sse
// and ws below this one carry messages over standard streams and networks, and oauth adds
// authorization. Middleware that authenticates requests uses [WithPrincipal] to name the
// client and [WithAuthorizer] to decide about its calls.
//
// # Guarantees
//
//  1. Dialers and binders may be used concurrently.
//  2. [Conn].Close returns when all goroutines of the connection have ended, within a time
//     limit.
//  3. An error of the network is [ErrNotReached] under errors.Is.
//
// # Related packages
//
// Package jsonrpc has the connections and handlers. Package transporttest, below this one,
// tests a transport.
package transport

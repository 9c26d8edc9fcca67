// Package httptransport defines what packages streamable, sse and ws have in common: the handler of a
// server, how a client is authorized, and what HTTP says about a message that failed.
//
// A program finds the status of a refused call with errors.AsType:
//
//	_, err := conn.Call(ctx, "tools/list", nil)
//	if refused, ok := errors.AsType[*httptransport.StatusError](err); ok {
//		log.Print(refused.Status, refused.Header.Get("Retry-After"))
//	}
//
// # Concepts
//
// An [Authorizer] adds credentials to requests and reacts to challenges. An *oauth.Client is an Authorizer. The
// DialOptions of each transport have a field for it. [StaticHeader] is for a header that is the same in each request.
//
// An [Endpoint] is the handler of a server, over each of the transports.
//
// A [StatusError] is an HTTP response without a JSON-RPC message. A [RedirectError] is a
// redirect that is not followed.
//
// [NewServer] returns a web server with limits for unknown clients, and [NewClient] an HTTP client for servers that the
// program names.
//
// # Guarantees
//
//  1. Requests go only to the origin of the URL that was dialed.
//  2. Errors contain no URL query, no user information and no request header.
//  3. Both errors may be shared between goroutines; they are not modified.
package httptransport

// Package forward carries calls of other clients through a client session.
//
// A proxy receives a call and passes it on to another server with [Client.Forward]. The
// parameters and the result are not decoded; their bytes stay as received.
//
//  1. Forward refuses ambiguous members, and replaces the hop-by-hop members of the params
//     (call.go).
//  2. Forward sends the request, which is then one of the calls in flight (inflight.go).
//  3. Progress and log messages of the server are sent to the caller before the result. A
//     message that does not name its call is attributed to a call in flight (inflight.go).
//  4. A question of the server becomes the result of Forward (rounds.go). A modern server asks
//     in its result, and the state for the next round is stored with the caller's call. A
//     legacy server asks by a request and waits for the response: the request to it stays open
//     in [SuspendedCalls] until the next run of the caller's call.
package forward

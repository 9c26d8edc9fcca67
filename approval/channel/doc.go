// Package channel connects an approver over a WebSocket. Use it when the program that asks a
// person is not the program that runs the MCP server or bridge.
//
//	ch, err := channel.New(nil) // an approval.Approver and an http.Handler
//	...
//	http.Handle("/approve", ch)
//
//	// In the approver's program:
//	client, err := channel.Dial(ctx, "ws://localhost:8080/approve", ask, &channel.ClientOptions{Token: token})
//
// # Concepts
//
// A [Channel] sends requests to the approver that is connected. [Dial] returns the approver's
// end, a [Client] that passes each request to an approval.Handler.
//
// The messages are JSON-RPC 2.0, one in each text frame. For each request the server calls
// approve with the params
//
//	server_name, tool_name, tool_args  what is to be called, the arguments byte for byte
//	call_id, deadline, args_digest     the request's id, when it expires, and the SHA-256 of tool_args
//	launch, tool_digest, caller, created, digest
//
// An approver may ignore the second and third line. The result is true or false. Any other
// result approves nothing. A refusal may have a member reason next to the result.
//
// An approver that selects the subprotocol "dovetail.approval.v1" gets notifications:
// registered {} first, when requests will be sent to it; withdrawn {"id"}, when an answer is
// no longer needed; and refused {"id", "reason"}, when an answer was ignored.
//
// # Guarantees
//
//  1. A Channel and a Client may be used concurrently.
//  2. At most one approver is connected to a channel at a time.
//  3. Each request gets at most one answer, from a connection that it was sent to.
//  4. An approver must present the token, which is compared in constant time, and an allowed
//     Host and Origin, because it decides about everything.
//  5. Frames, queues and waiting approvers are bounded.
//  6. With [Options].Store, each answer is for one call, whatever replica is killed when. If it is
//     not known whether the call has got the answer, no call gets it.
//
// Package approval defines requests, answers and the guard that asks. Package approval/page is
// a web page that uses this channel.
package channel

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
// A [Channel] sends requests to the approvers that are connected, and the first answer decides.
// [Dial] returns an approver's end, a [Client] that passes each request to an approval.Handler.
//
// The messages are JSON-RPC 2.0, one in each text frame. For each request the server calls
// approve with the params
//
//	server_name, tool_name, tool_args  what is to be called, the arguments byte for byte
//	call_id, deadline, args_digest     the request's id, when it expires, and the SHA-256 of tool_args
//	launched  true if the caller has launched the server, and so chosen its name
//	launch, tool_digest, caller, created, digest
//	title, description, read_only, destructive, trusted, rule, reason, script  see approval.Request
//	remember  for how many seconds a yes may be remembered
//
// An approver may ignore all lines after the first one. Members of the last two are missing if they
// are not known, and launched if it is false. The result is true or false. Any other result approves nothing. A refusal may
// have a member reason next to the result, and an approval a member remember, the number of seconds
// for which it is also valid for equal calls.
//
// An approver that selects the subprotocol "dovetail.approval.v1" gets notifications:
// registered {} first, when requests will be sent to it; withdrawn {"id"}, when an answer is
// no longer needed; and refused {"id", "reason"}, when an answer was ignored. If another approver
// has decided, the last two have the members decision ("approved", "rejected" or "failed"), by,
// decision_reason and remember, as far as they are known. A withdrawn without them may come first.
//
// # Guarantees
//
//  1. A Channel and a Client may be used concurrently.
//  2. At most 64 approvers with the subprotocol are connected to a channel, and one without it.
//  3. Each request gets at most one answer, from a connection that it was sent to.
//  4. An approver must present the token, which is compared in constant time, or be known to
//     Options.Authenticate, and must present an allowed Host and Origin, because it decides about
//     everything. A known person approves no call of their own.
//  5. Frames, queues and waiting approvers are bounded. At most 32 requests with the same target,
//     arguments and caller are open; further ones fail with approval.TooMany.
//  6. With [Options].Store, each answer is for one call, whatever replica is killed when. If it is
//     not known whether the call has got the answer, no call gets it.
//
// Package approval defines requests, answers and the guard that asks. Package approval/page is
// a web page that uses this channel.
package channel

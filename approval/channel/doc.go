// Package channel has calls approved over a WebSocket: a [Channel] is an
// [approval.Approver] and the http.Handler that the approver's program connects to, and
// [Dial] is that program's end.
//
// The wire is JSON-RPC 2.0, one message a text frame. For each request the server calls
// approve with the params
//
//	server_name, tool_name, tool_args  what is to be called, the arguments byte for byte
//	call_id, deadline, args_digest     the request's id, when it expires, and the SHA-256 of tool_args
//	launch, tool_digest, caller, created, digest
//
// of which the second and third line may be ignored, and the result is true or false, and
// nothing else: whatever is no JSON boolean approves nothing. A refusal may have a member
// reason beside the result. An approver that has agreed to
// the subprotocol "dovetail.approval.v1" gets notifications: first registered {}, when
// requests are shown to it from now on, then withdrawn {"id"}, when an answer is not waited
// for any more, and refused {"id", "reason"}, when an answer did not count.
//
// Whoever may open the socket decides about everything. So it takes a token, checked in
// constant time, and refuses strange hosts and origins.
package channel

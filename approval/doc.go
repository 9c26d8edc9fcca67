// Package approval has a person decide about tool calls before they are made.
//
// [Guard] enforces a policy of package policy on a server, mount, bridge or single entry.
// Where the policy says ask, it puts a [Request] before an [Approver], and makes the call
// only if the answer is yes:
//
//	server.Options{Guards: []mcp.Guard{approval.Guard(compiled, approval.ByCaller(), nil)}}
//
// [ByCaller] asks the person behind the calling client, [Terminal] one at a terminal,
// [Deferred] a function that may answer later, and [Quorum] several of them; package
// approval/channel asks over a WebSocket.
//
// # Guarantees
//
//   - An approval is for one call: its server and how that is launched, its tool and the
//     tool's definition, the exact bytes of its arguments, and its caller. After the answer
//     the tool is looked up again: one that was removed, changed or quarantined in the
//     meantime is not called.
//   - The bytes that were approved are those that run. A middleware between the guard and
//     the function gets an error when it changes the arguments; see
//     [mcp.Call.FreezeArguments]. What changes arguments belongs before the guard: among the
//     Middleware of the server, or in the Run of an earlier guard.
//   - It is good for one execution, until it expires. A call that has to ask its caller
//     for more runs several times: that is one question to the approver, and one
//     execution.
//   - Anything but a clear yes refuses: an error, a panic, an answer too late, nobody to
//     ask, a journal that cannot be written.
//   - A [Journal] has the approval, and that the call is about to be made, on disk before
//     it is made.
//
// Everything may be used concurrently unless it says otherwise.
package approval

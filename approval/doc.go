// Package approval has a person decide about tool calls before they run.
//
// [Guard] enforces a policy of package policy on a server, mount, bridge or single entry.
// Where the policy says ask, it passes a [Request] to an [Approver], and makes the call only
// if the answer is yes:
//
//	guard := approval.Guard(compiled, approval.Elicitation(), nil)
//	s := server.New(info, &server.Options{Guards: []mcp.Guard{guard}})
//
// [Elicitation] asks the user of the calling client, [Terminal] asks at a terminal,
// [Callback] calls a function that may answer later, and [Quorum] combines approvers. Package
// approval/channel asks over a WebSocket, and package approval/page is a web page for it.
//
// # Guarantees
//
//  1. An approval is valid for one call: its server and launch command, its tool and the
//     tool's definition, the exact bytes of the arguments, and the caller. After the answer
//     the tool is looked up again. If it was removed, changed or quarantined, the call fails.
//  2. The approved bytes are the ones that run. A middleware between the guard and the
//     function gets an error if it changes the arguments; see [mcp.Call.FreezeArguments].
//     A middleware that changes arguments belongs before the guard: in the Middleware of the
//     server, or in the Run of an earlier guard.
//  3. An approval is valid for one execution, until it expires, unless the operator allows the
//     approver to remember it; see Options.Remember. A call that asks its caller
//     for input runs several times, but is one request to the approver and one execution.
//  4. Everything except a clear yes refuses the call: an error, a panic, a late answer, a
//     missing approver, or a journal that cannot be written.
//  5. A [Journal] stores the approval, and the fact that execution begins, before the call
//     runs.
//  6. All functions and methods may be called concurrently unless their documentation says
//     otherwise.
package approval

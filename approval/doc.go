// Package approval has a person decide about calls before they are made.
//
// [Gate] is an interceptor: where a policy says ask, it puts a [Request] before an
// [Approver] and makes the call only if the answer is yes. [ByCaller] asks the person
// behind the calling client, [Terminal] one at a terminal, [Deferred] a function that may
// answer later, and [Quorum] several of them; package approval/channel asks over a
// WebSocket.
//
// # What holds
//
//   - An approval is for one call: its server and how that is launched, its tool and the
//     tool's definition, the exact bytes of its arguments, and its caller. What is passed
//     on is what was shown. What differs by then is refused.
//   - It is good for one execution, until it expires. A call that has to ask its caller
//     for more runs several times: that is one question to the approver, and one
//     execution.
//   - Anything but a clear yes refuses: an error, a panic, an answer too late, nobody to
//     ask, a journal that cannot be written.
//   - A [Journal] has the approval, and that the call is about to be made, on disk before
//     it is made.
//
// # Where a gate stands
//
// On a server it is the first CallMiddleware, for arguments that have been
// validated, or among Middleware. Where arguments are changed after their validation, the server
// ends the call; what comes after a gate elsewhere and changes the call is stopped by
// [Recheck]. On a client, and around what a
// bridge calls, a gate is like any other interceptor, but ByCaller cannot ask there.
//
// Everything may be used concurrently unless it says otherwise.
package approval

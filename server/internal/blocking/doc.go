// Package blocking runs functions that wait for the answers to their questions, while the requests of their calls come
// and go.
//
// A function runs in a goroutine of its own, from the run of the call that has begun it until it returns. A run of the
// call waits until the function has an outcome: its result, or a question. In the latter case the run ends with the
// question, and the next run brings the answer. Therefore the function runs once in every version of the protocol, and
// middleware and guards around it see the runs of a call as they see those of any other call.
//
// # Files
//
//  1. calls.go has all functions of a server, and their limits.
//  2. function.go is one function: the responder of its call, and what its runs wait for.
//  3. replicas.go and remote.go pass a run to the replica that has the function.
package blocking

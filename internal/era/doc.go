// Package era implements the two eras of the Model Context Protocol. Except for the HTTP
// transport, no other package knows that there are versions.
//
// In the modern era, since 2026-07-28, each request carries its version, its client and the
// client's capabilities. A question to the client is a result, and the client sends the call
// again with the answers. In the legacy era, until 2025-11-25, a handshake opens a session
// that holds this data, and a server asks by sending requests.
//
// # Concepts
//
// [Server] serves a [Core], which knows modern calls only, over links of both eras. For a
// legacy session it adds the session's data to each call, asks the questions of the call, and
// runs the call again with the answers.
//
// [Client] is the client's side: [Open] finds out the era of the server, and the methods of
// a Client are the same in both.
//
// # Files
//
//  1. server.go, modern_server.go and legacy_server.go handle requests; call.go is one call;
//     legacy_state.go is the state of a legacy session, which another process can continue.
//  2. client.go, modern_client.go and legacy_client.go make requests; progress.go passes
//     progress on; wait.go waits for calls that continue as tasks.
//  3. result.go encodes results; versions.go removes what an older version does not have.
//  4. changes.go queues notifications of changes; wire.go edits params.
//
// # Related packages
//
// Package forward carries calls of other clients through a Client. Package eratest has the
// peers for tests.
package era

// Package interop tests this module against the other Go SDKs for MCP over HTTP: their clients
// with our server, and our client with their servers, in every version and over every
// transport that both support. It is a module of its own, so that users of the main module do
// not depend on the other SDKs:
//
//	go test ./...
//
// The servers of all SDKs have the same entries, and the clients of all SDKs have the same
// interface, so that there is one list of checks. The list knownFailures names the checks that
// fail because of another SDK, with the reason.
package interop

// Package interop checks this module against the other Go SDKs for MCP over HTTP:
// their clients talk to our server, our client to their servers, in every version
// and over every transport that both have. It is a module of its own, so that no
// user of ours gets to see theirs:
//
//	go test ./...
//
// A guest is a client, a host a server, whichever SDK they are from. Every host
// offers the same, every guest is asked to do the same, and so there is one list of
// checks. What an SDK cannot do, or does wrong, stands in the list of faults, with
// the reason.
package interop

// Package main compares how this module, the official Go SDK and mark3labs/mcp-go react to
// attacks that were published: the 64 cases of MCPSEC 1.1.0 and CVEs of MCP implementations.
// SECURITY.md of the main module has the table that it prints:
//
//	go run .
//
// Servers are processes of their own and are attacked over sockets and pipes. A case is a
// function that attacks a peer and returns a verdict. The same function also attacks a peer that
// is careless on purpose, which must be unsafe: a case that finds nothing there tests nothing.
//
// The peers have their default options, and these options that their documentation recommends:
//
//   - go-sdk: TokenInfo.UserID for servers with bearer tokens.
//   - mcp-go: WithInputSchemaValidation, WithRecovery and WithSessionIdleTTL.
package main

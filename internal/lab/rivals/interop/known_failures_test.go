package interop

import (
	"flag"
	"slices"
)

// runKnownFailures also runs the checks that are known to fail. Use it with new versions of
// the SDKs.
var runKnownFailures = flag.Bool("known-failures", false, "run the checks that are known to fail too")

// A knownFailure is a limitation or bug of another SDK, and the checks that fail because of it.
// Empty fields match everything.
type knownFailure struct {
	client, server, transport string
	from, until               string // versions, as in check
	checks                    []string
	reason                    string
}

func (f *knownFailure) matches(p pair, check string) bool {
	return (f.client == "" || f.client == p.client) && (f.server == "" || f.server == p.server) &&
		(f.transport == "" || f.transport == p.transport) &&
		p.version >= f.from && (f.until == "" || p.version < f.until) && slices.Contains(f.checks, check)
}

// asking lists the checks in which a server asks a question.
var asking = []string{
	"a person accepts", "a person declines", "one question after the other", "many are asked at once",
	"a model is asked", "roots are asked for",
}

// knownFailures are the known failures of go-sdk 1.8.0 and mcp-go 1.2.1.
var knownFailures = []knownFailure{
	{
		client: "mcp-go", transport: "sse", checks: asking,
		reason: "it does not answer questions over this transport",
	},
	{
		server: "mcp-go", transport: "sse", checks: asking,
		reason: "it cannot send requests over this transport",
	},
	{
		server: "mcp-go", from: modern, checks: []string{"a resource changes"},
		reason: "it does not notify subscriptions of changed resources",
	},
	{
		server: "mcp-go", checks: []string{"a call outlives its stream"},
		reason: "its tools cannot disconnect the client",
	},
	{
		transport: "sse", checks: []string{"a call outlives its stream"},
		reason: "the stream is the session",
	},
	{
		transport: "fallback", checks: []string{"a call outlives its stream"},
		reason: "the stream is the session",
	},
	{
		server: "mcp-go", transport: "fallback", checks: asking,
		reason: "it cannot send requests over this transport",
	},
	{
		server: "go-sdk json", checks: []string{"progress", "a call outlives its stream"},
		reason: "messages before the result are lost",
	},
	{
		server: "go-sdk json", from: modern, checks: []string{"log messages with a minimum level"},
		reason: "messages before the result are lost",
	},
}

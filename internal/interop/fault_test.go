package interop

import (
	"flag"
	"slices"
)

// tryFaults runs the checks that are known to fail: try it with new versions of the
// SDKs.
var tryFaults = flag.Bool("faults", false, "run the checks that are known to fail too")

// A fault is what another SDK cannot do or does wrong, and which checks it keeps a
// pair from. Empty members stand for any.
type fault struct {
	guest, host, transport string
	from, until            string // versions, as in check
	checks                 []string
	why                    string
}

func (f *fault) concerns(p pair, check string) bool {
	return (f.guest == "" || f.guest == p.guest) && (f.host == "" || f.host == p.host) &&
		(f.transport == "" || f.transport == p.transport) &&
		p.version >= f.from && (f.until == "" || p.version < f.until) && slices.Contains(f.checks, check)
}

// asking are the checks in which a host asks.
var asking = []string{
	"a person accepts", "a person declines", "one question after the other", "many are asked at once",
	"a model is asked", "roots are asked for",
}

// faults are those of go-sdk 1.8.0 and mcp-go 1.2.1.
var faults = []fault{
	{
		guest: "mcp-go", transport: "sse", checks: asking,
		why: "it does not answer questions over this transport",
	},
	{
		host: "mcp-go", transport: "sse", checks: asking,
		why: "it cannot ask over this transport",
	},
	{
		host: "mcp-go", from: modern, checks: []string{"a resource changes"},
		why: "it tells no subscription of resources that change",
	},
	{
		host: "mcp-go", checks: []string{"a call outlives its stream"},
		why: "a tool of it cannot hang up",
	},
	{
		transport: "sse", checks: []string{"a call outlives its stream"},
		why: "the stream is the session",
	},
	{
		transport: "fallback", checks: []string{"a call outlives its stream"},
		why: "the stream is the session",
	},
	{
		host: "mcp-go", transport: "fallback", checks: asking,
		why: "it cannot ask over this transport",
	},
	{
		host: "go-sdk json", checks: []string{"progress", "a call outlives its stream"},
		why: "what it has to say before the result gets lost",
	},
	{
		host: "go-sdk json", from: modern, checks: []string{"log messages from a level on"},
		why: "what it has to say before the result gets lost",
	},
}

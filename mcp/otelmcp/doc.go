// Package otelmcp reports the calls and sessions of servers, clients and bridges to OpenTelemetry,
// by the semantic conventions for MCP
// (https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md; names of
// version 1.41.0).
//
// A program installs the SDK of OpenTelemetry, and passes the two hooks of a [Telemetry] to what it
// wants to observe:
//
//	telemetry := otelmcp.NewServer(nil)
//	s := server.New(info, &server.Options{
//		Middleware: []mcp.Middleware{telemetry.Middleware},
//		OnSession:  telemetry.OnSession,
//	})
//
// [NewClient] does the same for client.Options, and for bridge.ProxyOptions: the sessions of a bridge
// with its servers. The server that a bridge is mounted on needs a NewServer.
//
// # Spans
//
// Each call is a span: of the kind server where it is handled, and of the kind client where it is made.
// The name is the method and the name of the tool or prompt: "tools/call add". The attributes are
//
//	mcp.method.name            "_OTHER" on a server that does not know the method
//	gen_ai.tool.name           with gen_ai.operation.name "execute_tool"; on a server, listed tools only
//	gen_ai.prompt.name         on a server, listed prompts only
//	mcp.resource.uri
//	mcp.protocol.version       except where a bridge makes a call
//	jsonrpc.request.id         on a server
//	rpc.response.status_code   the code of a JSON-RPC error
//	error.type                 that code; "tool_error" for a tool result with isError; else "timeout",
//	                           "canceled", "closed", "not_reached", "panic" or "_OTHER"
//
// and the attributes of [Options].Attributes. Arguments, results, principals and ids of sessions are never
// reported. A server does not report as errors what is a fault of the client: the codes -32700,
// -32600, -32601, -32602 and -32002. A call that asks its caller for input is no error either; each of
// its runs is a span on a server.
//
// # Metrics
//
// The histograms mcp.server.operation.duration and mcp.client.operation.duration have the duration
// of calls in seconds, with the attributes above except mcp.resource.uri and jsonrpc.request.id. The
// histograms mcp.server.session.duration and mcp.client.session.duration have the duration of
// sessions, with mcp.protocol.version and error.type. Version 2026-07-28 has no sessions: there, a
// server reports none, and a client the time from Connect to Close.
//
// # Context propagation
//
// A client writes the context of its span into _meta of the request, with the propagator (SEP-414:
// traceparent, tracestate and baggage). A server makes the context in _meta the parent of its span.
// If the request of net/http has a span too, such as one of otelhttp, it is the parent if _meta has
// no context, and linked otherwise. So a call through any number of bridges is one trace, over any
// transport and in any protocol version. A bridge without telemetry forwards _meta unchanged.
//
// Clients can write any context into _meta. A server in front of unknown clients that must not
// continue their traces passes a propagator whose Extract returns the context unchanged.
//
// # Guarantees
//
//  1. A Telemetry may be used concurrently, and by any number of servers or clients.
//  2. It starts no goroutine. The SDK exports, queues and limits.
//  3. Names in spans and metrics are cut at 256 bytes, URIs and messages at 1,024.
//
// # Known limits
//
// The handshake, pings, subscriptions, notifications, and the questions of a server have no spans,
// since middleware does not see them.
package otelmcp

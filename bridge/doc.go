// Package bridge offers the tools, prompts and resources of other MCP servers. [Proxy] offers one server, and [New]
// offers many servers as one. Both return a [server.Provider], to be mounted on a [server.Server]. [Relay] forwards
// messages between two transports without reading their lists.
//
//	b, err := bridge.New(nil,
//		bridge.Config{Alias: "files", Dialer: stdio.Command("files-server", nil, nil)},
//		bridge.Config{Alias: "wiki", Dialer: streamable.Dial("https://wiki.example/mcp", nil)},
//	)
//	...
//	err = s.Mount(b, nil)
//
// A program without a server of its own calls [Bridge.Start] and [Bridge.CallTool].
//
// # Names
//
// A tool or prompt of a bridge is named ALIAS__NAME; see [Name]. Resources keep their URIs.
// If two servers of a bridge have a tool or prompt of one name, [New], [Bridge.Update],
// [Bridge.UpdateAll] and [Bridge.Run] return a [server.CollisionError]. A name that collides
// later, while the bridge runs, stays with the server that has it. Of two resources with one
// URI, or of a resource that a template covers, the entry of the earlier server is offered.
//
// Tools that the options of a server name must exist on that server; see [MissingError].
// [State] lists every entry that is not offered, with the reason.
//
// # Sessions
//
// A bridge reads the lists of a server in the session that carries the calls of the first user, so that what the server lists
// there is offered to all users, or with [ProxyOptions].DialAs in a session of nobody. Each further user has a session of its own, up to [ProxyOptions].Sessions. In the legacy era a server learns that its client can be asked everything. A
// question that the client of the call cannot answer is refused with the error of such a client, and no other client is asked.
// Over HTTP a question names its call. Over other transports it does not: if several clients have calls at the same time, the
// question waits up to 5 seconds until those of one client are left, and is then refused. Clients of the modern era with the same
// name, capabilities and network count as one.
// Each server is started, restarted and limited independently.
//
// A server asks the client of a call for roots during the call. If a client of the legacy era
// changes its roots, the bridge passes that on to servers of the legacy era, in the sessions that
// carry calls of the client. A server that asks for roots outside of a call gets those of the client, if it is the only one with
// roots in the legacy era whose calls the session carries. Otherwise it gets those of a client that makes a call within 5 seconds, or
// else none. Clients of the modern era do not report changes of roots, so a server of the legacy era that keeps the roots of a
// call is not notified.
//
// # Guarantees
//
//  1. Payload is not decoded: arguments, results, schemas, errors, progress, log messages
//     and unknown members keep their bytes and order. The bridge replaces only prefixed
//     names, ids, progress tokens and the members of _meta that the protocol reserves. It removes
//     members of results that are null, outside of structured content and _meta. Entries
//     of lists that are not valid by the schema of MCP are repaired or left out; see [State].
//  2. Questions of a server to the user reach the client that made the call, whatever
//     protocol version either side speaks.
//  3. A call that may have been executed is not repeated. The exception is a read-only or idempotent
//     tool of a trusted server that has lost the session: see [Proxy]. If no reply comes, the error is
//     an [UpstreamError] that says whether the call may have been executed.
//  4. A server that hangs or crashes fails only the calls to that server.
//  5. Every call passes the guards and middleware in [Options], also a call of [Bridge.CallTool]. No list has an entry
//     that a guard hides.
//  6. A call ends when its deadline passes. A call without a deadline ends when the server
//     reports no progress for [ProxyOptions].CallTimeout, by default a minute.
//  7. All methods may be called concurrently.
//
// # Related packages
//
// bridge/config reads configuration files, bridge/pin hides tools whose definitions have
// changed, bridge/search replaces long lists by two tools, bridge/llm encodes tools for the
// API of a language model, bridge/gateway and bridge/toolserver offer tools over plain HTTP,
// and bridge/control adds and removes servers over HTTP.
package bridge

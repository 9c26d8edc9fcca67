// Package bridge offers what other MCP servers have: one server's as it is, by [Proxy],
// or that of many behind one face, by [New]. Both are a [server.Provider], to be mounted
// on a [server.Server], so whoever can be asked there can be asked from here, whatever
// version of the protocol each side speaks.
//
// What passes through is not decoded: arguments, results, schemas, errors, progress and
// log messages arrive byte by byte, with members that this module has never heard of.
// A hop changes only what belongs to a hop: names where they are prefixed, the id, the
// progress token, what the protocol has reserved in _meta.
//
// A bridge outlives its servers: each is started, restarted and bounded by itself, and
// one that hangs or dies fails only the calls to it.
//
// # Names
//
//  1. Tools and prompts of a bridge have the alias of their server before their names: see
//     [Name]. Resources keep their URIs. The name of a call is looked up once, and never
//     taken apart.
//  2. Two tools or prompts of one name are an error of [New], [Bridge.Update],
//     [Bridge.Try] and [Bridge.Run] that names both servers. While a bridge runs, the
//     server that has a name keeps it. Of two resources with one URI, or one that a template
//     covers, that of the earlier server is offered.
//  3. What the options of a server name must exist there: see [MissingError].
//  4. [State] lists what is not offered, and why.
//
// # Guards
//
// All calls pass the guards and middleware in [Options]: those of clients, of
// [Bridge.CallTool] and of [Bridge.Handler]. What a guard hides is in no list.
//
// # Time
//
// A call ends when its caller's deadline passes. Without one it ends when the server has
// reported no progress for [ProxyOptions].CallTimeout, by default a minute.
package bridge

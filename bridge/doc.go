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
// one that hangs or dies costs nobody but those who call it.
package bridge

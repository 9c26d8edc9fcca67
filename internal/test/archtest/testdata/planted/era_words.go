// Package planted stands for package mcp, which may spell an era's words but no date.
package planted

const MethodInitialize = "initialize"

const latest = "2026-07-28" // want "contains the protocol version"

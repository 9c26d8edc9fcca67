// Package edge is what every HTTP route of this module does before it looks at a
// request: a [Guard] admits it by its Host, its Origin and its method, and [ReadJSON]
// reads its body within bounds of type, size and time. Whoever is not admitted has
// been answered.
//
// The Host check stops DNS rebinding, where the page of a stranger reaches a server
// on this machine under a name of the stranger's; comparing Origin with Host does not,
// since both are that name then. The Origin check stops pages that send requests
// across sites. MCP 2026-07-28, basic/transports/streamable-http, section Security
// Warning; Fetch Standard, section CORS protocol.
package edge

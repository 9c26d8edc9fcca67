// Package duplex holds what the transports stdio, sse and ws have in common. Their
// connections are one [jsonrpc.Stream] in both directions.
//
//   - [Serve] and [Dial] make the two ends of a connection.
//   - [ServerOptions] and [ClientOptions] complete the options of an end.
//   - [Queue] holds messages that wait to be sent.
package duplex

// Package transporttest tests implementations of transports with one connection in both
// directions. Package transport and its users rely on the properties that [Run] checks.
//
// For a transport that connects within a process, connect binds the server that it gets:
//
//	func TestTransport(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
//			return mytransport.New(server)
//		})
//	}
//
// For a transport whose server is another process, run [Server] there, for example in the test
// binary itself, and return a dialer that starts the process.
//
// The tests use plain JSON-RPC and no method of MCP. Each property is a subtest with a time
// limit of a minute.
package transporttest
